import { ConfigurationError } from '../model/errors.ts'
import { shown } from '../support/shown.ts'

/** What the guard does when a user's function misbehaves. */
export const CONSEQUENCES = {
  'dead-letter':
    'The message is dead-lettered (`invalid-payload`). A `RetryableError` defers it instead.',
  retry: 'The message is deferred and comes back. No attempt is counted.',
  fails: 'The attempt failed: it is counted, and the event is retried.',
  retryable: 'The error counts as retryable.',
  awaited: 'It is awaited.',
  settled: 'The delivery is settled as usual.',
  reported: 'The delivery is settled as usual, and the error is logged.',
  ignored: 'It is ignored.',
  blocked: 'A synchronous function that never returns blocks the process.',
  reconnects: 'The consumer is `recovering` and tries again with back-off.',
  any: 'Every value is allowed.',
} as const

/** The options of the guard that are functions, the handler, and the connection function of `consumeAmqp`. */
export type UserFunctionName =
  | 'decode'
  | 'skip'
  | 'schema'
  | 'eventKey'
  | 'tenant'
  | 'orderingKey'
  | 'fingerprint'
  | 'handler'
  | 'isFatal'
  | 'onTakeover'
  | 'onDuplicate'
  | 'observe'
  | 'logger'
  | 'connection'

export type Consequence = keyof typeof CONSEQUENCES

/** How one function of the user is called. */
export interface UserFunctionRule {
  /** It throws, or the promise that it answered rejects. */
  readonly throws: Consequence
  /** It answers a promise. */
  readonly promise: Consequence
  /** It gives no answer within `deadlineMs`. A later answer is ignored. */
  readonly silence: Consequence
  /** The function answers a value of another type. */
  readonly nonsense: Consequence
}

const RESOLVER: UserFunctionRule = {
  throws: 'dead-letter',
  promise: 'awaited',
  silence: 'retry',
  nonsense: 'dead-letter',
}

/**
 * The rule for every function that a user gives. docs/configuration.md renders this table, and
 * guard/user-functions.test.ts compares it with the code. No function can lose a message, undo a committed effect or
 * end the process by an unhandled rejection.
 */
export const USER_FUNCTIONS: Readonly<Record<UserFunctionName, UserFunctionRule>> = {
  decode: { throws: 'dead-letter', promise: 'awaited', silence: 'retry', nonsense: 'any' },
  skip: { throws: 'dead-letter', promise: 'awaited', silence: 'retry', nonsense: 'retry' },
  schema: { throws: 'dead-letter', promise: 'awaited', silence: 'retry', nonsense: 'retry' },
  eventKey: RESOLVER,
  tenant: RESOLVER,
  orderingKey: RESOLVER,
  fingerprint: { ...RESOLVER, nonsense: 'retry' },
  handler: { throws: 'fails', promise: 'awaited', silence: 'fails', nonsense: 'fails' },
  isFatal: {
    throws: 'retryable',
    promise: 'retryable',
    silence: 'blocked',
    nonsense: 'retryable',
  },
  onTakeover: { throws: 'fails', promise: 'awaited', silence: 'fails', nonsense: 'fails' },
  onDuplicate: {
    throws: 'reported',
    promise: 'awaited',
    silence: 'reported',
    nonsense: 'ignored',
  },
  observe: { throws: 'reported', promise: 'ignored', silence: 'settled', nonsense: 'ignored' },
  logger: { throws: 'settled', promise: 'ignored', silence: 'settled', nonsense: 'ignored' },
  connection: {
    throws: 'reconnects',
    promise: 'awaited',
    silence: 'reconnects',
    nonsense: 'reconnects',
  },
}

const EXPECTED: Readonly<Record<'skip' | 'schema' | 'fingerprint' | 'onTakeover', string>> = {
  skip: 'true or false',
  fingerprint:
    'a text, a number, or lists and plain objects of them (the JSON of a Map, a FormData or an ArrayBuffer is empty, and a BigInt has none)',
  schema: '`{ value }` or `{ issues: [...] }`, as Standard Schema defines them',
  onTakeover: "`{ kind: 'done' }`, `{ kind: 'retry' }` or `{ kind: 'dead-letter' }`",
}

/**
 * A user's function answered what no message can cause: the code is wrong and not the message, so the message is
 * retried. A new version of the code can run it.
 */
export class WrongAnswerError extends ConfigurationError {
  static override readonly name: string = 'ConfigurationError'
  readonly option: UserFunctionName

  constructor(option: keyof typeof EXPECTED, answer: unknown) {
    super(
      `Expected \`${option}\` to answer ${EXPECTED[option]}, got ${answered(answer)}. Fix the function; its messages are retried meanwhile.`,
    )
    this.option = option
  }
}

/** Never shows what is inside of an object: it may be part of a message. */
function answered(answer: unknown): string {
  if (answer === null) return 'null'
  if (typeof answer === 'boolean' || typeof answer === 'number') return shown(String(answer))
  if (typeof answer !== 'object') return `a value of type ${typeof answer}`
  return answer instanceof Promise ? 'a promise' : 'another object'
}
