import { dueNow } from '../model/attempt-machine.ts'
import type { EventId, OwnerToken } from '../model/brands.ts'
import type {
  DeadLetter,
  DeadLetterRef,
  PublishingEnd,
  PublishingRight,
} from '../model/dead-letter.ts'
import { isError, StoreUnavailableError } from '../model/errors.ts'
import type { OffsetStore } from '../model/fence.ts'
import type { Pause } from '../model/guard-port.ts'
import type {
  BeginRequest,
  Begun,
  Burial,
  ConsumerRegistration,
  CountAnswer,
  CountedEvent,
  DueEvent,
  Failure,
  IdentifiedEvent,
  Inbox,
  InboxSession,
  Known,
  MessageCounts,
  ParkAnswer,
  PauseStore,
  Refusal,
  Release,
  SweepStep,
  VerdictAnswer,
} from '../model/inbox.ts'
import type { CollectedMessage } from '../model/outbox.ts'
import { fromJsonText } from '../support/json-text.ts'
import { Attempts } from './attempts.ts'
import { memoryOffsets } from './offsets.ts'
import { MemoryStore } from './store.ts'
import type { MemoryTables, ProcessedEventRow } from './tables.ts'
import { begin } from './transaction.ts'

/** An inbox for unit tests: the semantics of the Postgres inbox, in this process's memory. */
export interface MemoryInbox<Tx> extends Inbox<Tx> {
  /** Dead-lettered events and refused messages, oldest first. */
  deadLetters(): readonly DeadLetter[]
  /** Parks a dead letter, due now: a running guard of its consumer runs it. False if there is no such dead letter. */
  replay(ref: DeadLetterRef): boolean
  /** Pauses a consumer, as an operator does: its guards know it within two seconds. Undefined: resumes it. */
  pause(consumer: string, pause: Omit<Pause, 'source'> | undefined): void
  /** The messages that handlers have sent, in the order of their commits. No relay takes them. */
  sent(): readonly SentMessage[]
}

/** A message as its receiver would get it. */
export interface SentMessage {
  readonly id: string
  readonly to: string
  readonly key?: string | undefined
  /** Bytes as they were given or sealed, or what the JSON of the message says. */
  readonly payload: unknown
  readonly headers: Readonly<Record<string, string>>
  readonly type: string
  readonly delayMs: number
}

/** Rows that one step of the sweep deletes. */
const SWEEP_STEP_ROWS = 1_000

/**
 * An inbox in memory. All guards that get the same inbox share its rows, even across simulated restarts.
 *
 * Locks, tokens, attempts, the five-second rule and the waits are those of the Postgres inbox (design.md §6).
 * `budgetMs` has no effect: a frozen process freezes this store too.
 *
 * @param tx - Passed to the handler as `context.tx`.
 *
 * @example
 * ```ts
 * import { createGuard } from '@onceward/core'
 * import { memoryInbox, toDelivery } from '@onceward/core/memory'
 *
 * const billing = createGuard({ consumer: 'billing', inbox: memoryInbox() }, async () => {})
 * await billing.process(toDelivery({ orderId: 'o-1' }, { headers: { 'idempotency-key': 'o-1' } }))
 * ```
 */
export function memoryInbox(): MemoryInbox<undefined>
export function memoryInbox<Tx>(tx: Tx): MemoryInbox<Tx>
export function memoryInbox<Tx>(tx?: Tx): MemoryInbox<Tx | undefined> {
  const store = new MemoryStore()
  return {
    open: async (registration) => new MemorySession(store, registration, tx),
    deadLetters: () => store.deadLetters(),
    replay: (ref) => {
      const letter = store.refused.get(ref.id)?.letter
      // The operator has fixed what ended the process, so the message may be read again.
      if (letter !== undefined) void store.messageCounts.of(letter.consumer).end([letter.delivery])
      return store.replay(ref)
    },
    pause: (consumer, pause) => store.pauses.operate(consumer, pause),
    sent: () => store.tables.outbox.map(toSent),
  }
}

function toSent({
  event: _event,
  isJson,
  payload,
  sealed,
  source: _,
  ...message
}: CollectedMessage): SentMessage {
  const text = isJson && sealed !== true ? Buffer.from(payload).toString() : undefined
  return { ...message, payload: text === undefined ? payload : fromJsonText(text) }
}

/** A memory inbox as one guard uses it. Exported for the simulation, which puts a simulated network in front of it. */
export class MemorySession<Tx> implements InboxSession<Tx> {
  readonly concurrency: number
  readonly sendsMessages = true
  readonly keepsSealed = 'troubled'
  readonly secret: Uint8Array
  readonly messageCounts: MessageCounts
  readonly offsets: OffsetStore
  readonly pauses: PauseStore
  readonly #store: MemoryStore
  readonly #tables: MemoryTables
  readonly #registration: ConsumerRegistration
  readonly #verdicts: Attempts
  readonly #tx: Tx

  constructor(store: MemoryStore, registration: ConsumerRegistration, tx: Tx) {
    const { consumer, fingerprintRule, logger } = registration
    const registered = store.rules.get(consumer)
    if (registered !== undefined && registered !== fingerprintRule) {
      const fields = { consumer, registered, fingerprintRule }
      logger.warn(
        fields,
        'another guard of this consumer has another `fingerprint` or `decode`: conflicts between their events are not detected. Use the same in all processes',
      )
    }
    store.rules.set(consumer, fingerprintRule)
    store.tables.setClock(registration.runtime)
    this.concurrency = registration.concurrency
    this.secret = store.secret
    this.messageCounts = store.messageCounts.of(consumer)
    this.offsets = memoryOffsets(store.tables, registration.runtime)
    this.pauses = store.pauses.of(consumer)
    this.#store = store
    this.#tables = store.tables
    this.#registration = registration
    this.#verdicts = new Attempts(store.tables, registration)
    this.#tx = tx
  }

  async identity(): Promise<string> {
    return this.#store.identity
  }

  async begin(request: BeginRequest): Promise<Begun<Tx>> {
    const { consumer, runtime } = this.#registration
    const session = { tx: this.#tx, consumer, runtime }
    const tables = { tables: this.#tables, verdicts: this.#verdicts }
    const begun = await begin({ ...session, ...tables }, request)
    if (begun.kind !== 'none' || request.claim.kind !== 'fresh') return begun
    const known = request.claim.events.map(({ id }) => this.#tables.known(id))
    return { kind: 'none', done: known.map((each) => (each.kind === 'done' ? each : undefined)) }
  }

  async classify(events: readonly IdentifiedEvent[]): Promise<readonly Known[]> {
    return events.map(({ id }) => this.#tables.known(id))
  }

  async suspect(
    events: readonly IdentifiedEvent[],
    waitMs: number,
  ): Promise<
    | { readonly kind: 'answered'; readonly counted: readonly (CountedEvent | undefined)[] }
    | { readonly kind: 'held' }
  > {
    const counted = await this.#verdicts.suspect(events, waitMs)
    return counted === 'held' ? { kind: 'held' } : { kind: 'answered', counted }
  }

  async count(
    events: readonly IdentifiedEvent[],
    run: 'together' | 'alone',
  ): Promise<readonly CountAnswer[]> {
    return events.map((event) => this.#verdicts.count(event, run))
  }

  async park(events: readonly IdentifiedEvent[], waitMs: number): Promise<readonly ParkAnswer[]> {
    return Promise.all(events.map((event) => this.#verdicts.park(event, waitMs)))
  }

  async fail(failures: readonly Failure[]): Promise<readonly VerdictAnswer[]> {
    return failures.map((failure) => this.#verdicts.fail(failure))
  }

  async bury(burials: readonly Burial[]): Promise<readonly VerdictAnswer[]> {
    return burials.map((burial) => this.#verdicts.bury(burial))
  }

  async release(releases: readonly Release[]): Promise<readonly VerdictAnswer[]> {
    return releases.map((release) => this.#verdicts.release(release))
  }

  async refuse(refusals: readonly Refusal[]): Promise<readonly DeadLetterRef[]> {
    return refusals.map((refusal) => this.#store.refuse(this.#registration.consumer, refusal))
  }

  async takePublishing(ref: DeadLetterRef, rightMs: number): Promise<PublishingRight> {
    const token = this.#registration.runtime.uuid() as OwnerToken
    return this.#store.takePublishing(ref, token, rightMs)
  }

  async endPublishing(
    ref: DeadLetterRef,
    token: OwnerToken,
    as: PublishingEnd,
  ): Promise<VerdictAnswer> {
    return this.#store.endPublishing(ref, token, as)
  }

  async due(limit: number, except: readonly EventId[] = []): Promise<readonly DueEvent[]> {
    const events = [...this.#tables.rows].flatMap(([id, row]) =>
      except.includes(id) ? [] : (this.#dueEvent(id, row) ?? []),
    )
    const refused = [...this.#store.refused.values()]
      .filter(({ parked, letter }) => parked && letter.consumer === this.#registration.consumer)
      .map(({ letter }): DueEvent => {
        return { ref: letter.ref, what: 'run', delivery: letter.delivery }
      })
    return [...events, ...refused].slice(0, limit)
  }

  async resolveRefused(id: string): Promise<void> {
    this.#store.refused.delete(id)
  }

  async sweep(): Promise<SweepStep> {
    const { consumer, dedupWindowMs } = this.#registration
    const oldestMs = this.#tables.nowMs() - dedupWindowMs
    const isOver = (row: ProcessedEventRow): boolean =>
      row.consumer === consumer && row.state === 'done' && row.processedAtMs < oldestMs
    const over = [...this.#tables.rows].filter(([, row]) => isOver(row))
    const step = over.slice(0, SWEEP_STEP_ROWS)
    for (const [id] of step) this.#tables.forget(id)
    return { deleted: step.length, finished: step.length === over.length }
  }

  diagnose(error: unknown): 'serialization' | 'store' | 'other' {
    if (error instanceof StoreUnavailableError) return 'store'
    const code = isError(error) && 'code' in error ? error.code : undefined
    return code === '40001' || code === '40P01' ? 'serialization' : 'other'
  }

  #dueEvent(id: EventId, { consumer }: ProcessedEventRow): DueEvent | undefined {
    if (consumer !== this.#registration.consumer) return undefined
    if (this.#tables.locks.holderOf(id) !== undefined) return undefined
    const what = dueNow(this.#tables.stateOf(id), this.#tables.nowMs())
    const trouble = this.#tables.troubles.get(id)
    if (what === undefined || trouble === undefined) return undefined
    const { delivery, ...identity } = trouble.event
    return { ref: { kind: 'event', id }, what, delivery, identity }
  }
}
