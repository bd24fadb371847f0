import { ConfigurationError, OutboxError } from '../model/errors.ts'
import type { Savepoint } from '../model/inbox.ts'
import type { CollectedMessage, Outbox, OutboxMessage } from '../model/outbox.ts'
import { hash } from '../node.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { MESSAGE_LIMIT_BYTES, toCollected } from '../support/outbox-message.ts'

/** Of one transaction: a batch of receivers would not be faster, and its text must fit into memory. */
const MOST_MESSAGES = 10_000
const MOST_BYTES = 32 * MESSAGE_LIMIT_BYTES

/** The messages of all runs of one transaction. */
export class Collected {
  readonly #sent: {
    readonly message: CollectedMessage
    readonly savepoint: Savepoint | undefined
  }[] = []
  #bytes = 0

  /** In the order in which they were sent, without those of savepoints that were rolled back. */
  get messages(): readonly CollectedMessage[] {
    return this.#sent
      .filter(({ savepoint }) => savepoint?.isRolledBack !== true)
      .map(({ message }) => message)
  }

  /** @throws {@link OutboxError} */
  add(message: CollectedMessage, savepoint: Savepoint | undefined): void {
    this.#bytes += message.payload.byteLength
    if (this.#sent.length === MOST_MESSAGES || this.#bytes > MOST_BYTES) {
      throw new OutboxError(
        `One transaction may send ${MOST_MESSAGES} messages of together ${MOST_BYTES} bytes. Send fewer, or run fewer events in one transaction.`,
      )
    }
    this.#sent.push({ message, savepoint })
  }
}

/** What one run of the handler sends. */
export class RunOutbox implements Outbox {
  readonly #options: Pick<ResolvedOptions, 'consumer' | 'runtime'>
  readonly #events: readonly string[]
  readonly #add: (message: CollectedMessage) => void
  #sent = 0
  #isOver = false

  /**
   * @param events - Ids of the events of the run. Empty: the event has no key, so the ids of its messages are random.
   * @param add - To those of the transaction.
   */
  constructor(
    options: Pick<ResolvedOptions, 'consumer' | 'runtime'>,
    events: readonly string[],
    add: (message: CollectedMessage) => void,
  ) {
    this.#options = options
    this.#events = events
    this.#add = add
  }

  // A property: handlers may take it off the object.
  readonly send = (message: OutboxMessage): void => {
    if (this.#isOver) throw new OutboxError(OVER)
    const n = this.#sent + 1
    const { consumer: source, runtime } = this.#options
    const newId = (): string =>
      this.#events.length === 0 ? runtime.uuid() : sentId(this.#events, n)
    const event = this.#events.length === 1 ? this.#events[0] : undefined
    this.#add(toCollected(message, { source, event, newId }))
    this.#sent = n
  }

  /** The handler has returned, or has failed and may still run. */
  end(): void {
    this.#isOver = true
  }
}

const OVER =
  'The run of this event is over, so nothing more can be sent. Await every promise in the handler.'

const NO_OUTBOX =
  'Messages are sent with the commit of an inbox, and this guard has none that stores them. Give the guard an inbox of PostgreSQL, or `memoryInbox()` in tests.'

/** Of a guard whose stores cannot send. */
export const noOutbox: Outbox = {
  send: () => {
    throw new ConfigurationError(NO_OUTBOX)
  },
}

/**
 * The id of the n-th message of a run: a UUID of version 5, whose namespace is the id of the event and whose name is the
 * number. The namespace of several events is made of all of their ids, because another batch sends other messages.
 */
export function sentId(events: readonly string[], n: number): string {
  const [first = '', ...others] = events
  const namespace = others.length === 0 ? first : uuid5(first, others.join())
  return uuid5(namespace, String(n))
}

/** RFC 9562, 5.5. */
function uuid5(namespace: string, name: string): string {
  const bytes = Buffer.concat([
    Buffer.from(namespace.replaceAll('-', ''), 'hex'),
    Buffer.from(name),
  ])
  const made = Buffer.from(hash('sha1', bytes, 'hex'), 'hex').subarray(0, 16)
  made[6] = ((made[6] ?? 0) & 0x0f) | 0x50
  made[8] = ((made[8] ?? 0) & 0x3f) | 0x80
  const hex = made.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}
