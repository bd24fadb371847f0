import type { RdConfig } from './rdkafka.ts'

/** What the protocol calls an error, or the error of the protocol that means the same. `classifyError` knows them. */
const NAME_OF_CODE: Readonly<Record<number, string>> = {
  3: 'UNKNOWN_TOPIC_OR_PARTITION',
  5: 'LEADER_NOT_AVAILABLE',
  6: 'NOT_LEADER_FOR_PARTITION',
  7: 'REQUEST_TIMED_OUT',
  10: 'MESSAGE_TOO_LARGE',
  13: 'NETWORK_EXCEPTION',
  14: 'GROUP_LOAD_IN_PROGRESS',
  15: 'GROUP_COORDINATOR_NOT_AVAILABLE',
  16: 'NOT_COORDINATOR_FOR_GROUP',
  17: 'INVALID_TOPIC_EXCEPTION',
  18: 'RECORD_LIST_TOO_LARGE',
  22: 'ILLEGAL_GENERATION',
  23: 'INCONSISTENT_GROUP_PROTOCOL',
  24: 'INVALID_GROUP_ID',
  25: 'UNKNOWN_MEMBER_ID',
  26: 'INVALID_SESSION_TIMEOUT',
  27: 'REBALANCE_IN_PROGRESS',
  29: 'TOPIC_AUTHORIZATION_FAILED',
  30: 'GROUP_AUTHORIZATION_FAILED',
  31: 'CLUSTER_AUTHORIZATION_FAILED',
  33: 'UNSUPPORTED_SASL_MECHANISM',
  34: 'ILLEGAL_SASL_STATE',
  35: 'UNSUPPORTED_VERSION',
  58: 'SASL_AUTHENTICATION_FAILED',
  82: 'FENCED_INSTANCE_ID',
  87: 'INVALID_RECORD',
  110: 'FENCED_MEMBER_EPOCH',
  111: 'UNRELEASED_INSTANCE_ID',
  112: 'UNSUPPORTED_ASSIGNOR',
  113: 'STALE_MEMBER_EPOCH',
  // librdkafka's own.
  [-144]: 'FENCED_INSTANCE_ID',
  [-165]: 'UNSUPPORTED_VERSION',
  [-169]: 'SASL_AUTHENTICATION_FAILED',
  [-172]: 'ILLEGAL_GENERATION',
  [-180]: 'GROUP_COORDINATOR_NOT_AVAILABLE',
  [-181]: 'NETWORK_EXCEPTION',
  [-185]: 'REQUEST_TIMED_OUT',
  [-187]: 'NETWORK_EXCEPTION',
  [-188]: 'UNKNOWN_TOPIC_OR_PARTITION',
  [-190]: 'UNKNOWN_TOPIC_OR_PARTITION',
  [-192]: 'REQUEST_TIMED_OUT',
  [-193]: 'NETWORK_EXCEPTION',
  [-195]: 'NETWORK_EXCEPTION',
}

const FATAL = -150
const FENCED = 82
const UNRELEASED = 111

/** Of events, which come as text without a code. */
const CODE_OF_TEXT: readonly (readonly [RegExp, number])[] = [
  [/authentication fail|authentication error|sasl/, -169],
  [/ssl/, -181],
  [/resolve/, -193],
  [/brokers? [\w ]{0,40}down/, -187],
  [/transport failure|disconnected/, -195],
  [/timed out/, -185],
]

/** An error of the native client, with a `type` that `classifyError` knows. */
export class ConfluentError extends Error {
  override readonly name = 'ConfluentError'
  readonly type: string
  readonly #code: number

  constructor(error: unknown) {
    const { message, code } = error as { readonly message?: unknown; readonly code?: unknown }
    const text = typeof message === 'string' ? message : String(error)
    super(text, { cause: error })
    this.#code = typeof code === 'number' && code !== -1 ? code : codeOf(text)
    this.type = NAME_OF_CODE[this.#code] ?? 'ConfluentError'
  }

  /** The client is over: it must be made again. */
  get isFatal(): boolean {
    return this.#code === FATAL || this.type === 'FENCED_INSTANCE_ID'
  }

  /** The broker has answered, with a refusal. */
  get isAnswer(): boolean {
    return this.#code > 0
  }
}

const codeOf = (text: string): number =>
  CODE_OF_TEXT.find(([pattern]) => pattern.test(text.toLowerCase()))?.[1] ?? -1

/** What a native call throws or answers, as {@link ConfluentError}. */
export const confluentError = (error: unknown): ConfluentError =>
  error instanceof ConfluentError ? error : new ConfluentError(error)

/**
 * librdkafka says of a fatal error only that it is one, or the broker's refusal of a commit comes first. A static member has
 * one if another member has its id. In the classic protocol the newer one has taken the place in the group: if the other
 * one came back, each would end the other without end. In the protocol of KIP-848 the older one keeps its place.
 */
export function fatalError(error: ConfluentError, config: RdConfig): ConfluentError {
  const id = config['group.instance.id']
  if (!error.isFatal || typeof id !== 'string' || id === '') return error
  const isNewer = config['group.protocol'] === 'consumer'
  const message = isNewer
    ? `another member of the group has the same \`group.instance.id\` (${id}), or had it until less than a session ago. This one joins when it is gone. Give each member an id of its own`
    : `another member has joined the group with the same \`group.instance.id\` (${id}). Give each member an id of its own`
  return new ConfluentError({ message, code: isNewer ? UNRELEASED : FENCED })
}

/** Kafka refuses a commit of a member that is not in the group. */
export const notAMember = (): ConfluentError =>
  new ConfluentError({ message: 'This member does not have the partition any more', code: 27 })

export const notAnswered = (): ConfluentError =>
  new ConfluentError({ message: 'Kafka does not answer', code: -185 })
