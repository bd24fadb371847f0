import { randomUUID } from 'node:crypto'
import type { Delivery, Inbox, Logger } from '@onceward/core'
import type {
  BeginRequest,
  Begun,
  ConsumerRegistration,
  CountedEvent,
  DeadLetter,
  DeadLetterRef,
  EventId,
  EventKey,
  Fingerprint,
  IdentifiedEvent,
  InboxSession,
  InboxTransaction,
  Known,
  OwnerToken,
  Runtime,
} from '@onceward/core/ports'

/** One inbox with empty tables, and the operations that a test needs from outside. */
export interface InboxUnderTest<Tx> extends AsyncDisposable {
  readonly inbox: Inbox<Tx>
  /** The guard's runtime; its clock may differ from the store's. */
  readonly runtime: Runtime
  /** Lets time pass on the clock of the store. */
  pass(ms: number): Promise<void>
  /** Replays a dead letter, as an operator does. */
  replay(ref: DeadLetterRef): Promise<void>
}

/** What an inbox can do beyond its port; a test that needs more is not registered. */
export interface InboxCapabilities {
  /** Stores bytes durably and returns a copy. */
  readonly storesBytes: boolean
  /** Counts messages before they are read. */
  readonly countsMessages?: boolean
  /** The server deletes done events at the end of their window by itself, so the sweep counts none. */
  readonly forgetsByItself?: boolean
}

export const MAX_ATTEMPTS = 3
export const WINDOW_MS = 3_600_000
/** Beyond the five seconds in which a counted event belongs to a live owner. */
export const NOT_YOUNG_MS = 6_000
const WAITS = { waitMs: 2_000, budgetMs: 30_000 }

export const silent: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
}

export function registration(
  runtime: Runtime,
  over: Partial<ConsumerRegistration> = {},
): ConsumerRegistration {
  return {
    consumer: 'billing',
    dedupWindowMs: WINDOW_MS,
    fingerprintRule: 1,
    maxAttempts: MAX_ATTEMPTS,
    concurrency: 4,
    concurrencyChosen: false,
    logger: silent,
    runtime,
    ...over,
  }
}

export function newDelivery(over: Partial<Delivery> = {}): Delivery {
  return {
    body: new TextEncoder().encode('{"cents":1}'),
    headers: { 'content-type': 'application/json' },
    source: { broker: 'sqs', queue: 'orders', position: randomUUID() },
    ...over,
  }
}

export function newEvent(over: Partial<IdentifiedEvent> = {}): IdentifiedEvent {
  const id = randomUUID()
  return {
    id: id as EventId,
    key: `order-${id}` as EventKey,
    fingerprint: 0x1234_5678_9abc_de01n as Fingerprint,
    delivery: newDelivery(),
    ...over,
  }
}

export const strangeToken = (): OwnerToken => randomUUID() as OwnerToken

/** How long a right to publish lasts in the tests. */
export const RIGHT_MS = 15_000

export const fresh = (...events: IdentifiedEvent[]): BeginRequest => ({
  claim: { kind: 'fresh', events },
  ...WAITS,
})

export const counted = (...events: CountedEvent[]): BeginRequest => ({
  claim: { kind: 'counted', events },
  ...WAITS,
})

/** The steps that most tests begin with. */
export class Steps<Tx> {
  readonly session: InboxSession<Tx>
  readonly #pass: (ms: number) => Promise<void>

  constructor(session: InboxSession<Tx>, pass: (ms: number) => Promise<void>) {
    this.session = session
    this.#pass = pass
  }

  async known(event: IdentifiedEvent): Promise<Known> {
    const [known] = await this.session.classify([event])
    if (known === undefined) throw new Error('classify() gave no answer')
    return known
  }

  async begin(request: BeginRequest): Promise<InboxTransaction<Tx>> {
    const begun: Begun<Tx> = await this.session.begin(request)
    if (begun.kind !== 'open') throw new Error(`expected an open transaction, got ${begun.kind}`)
    return begun.transaction
  }

  async commit(
    request: BeginRequest,
    results: ReadonlyMap<EventId, string> = new Map(),
  ): Promise<void> {
    const recovered =
      request.claim.kind === 'counted' ? request.claim.events.map(({ event }) => event.id) : []
    const answer = await (await this.begin(request)).commit({ results, recovered })
    if (answer.kind !== 'committed') throw new Error(`expected a commit, got ${answer.kind}`)
  }

  async suspect(event: IdentifiedEvent): Promise<CountedEvent> {
    const answer = await this.session.suspect([event], WAITS.waitMs)
    const first = answer.kind === 'answered' ? answer.counted[0] : undefined
    if (first === undefined) throw new Error(`expected attempt 1, got ${answer.kind}`)
    return first
  }

  /** Counts an event that ended without a verdict, or is due. */
  async countAlone(event: IdentifiedEvent): Promise<CountedEvent> {
    await this.#pass(NOT_YOUNG_MS)
    const [answer] = await this.session.count([event], 'alone')
    if (answer?.kind !== 'counted') throw new Error(`expected a count, got ${answer?.kind}`)
    return { event, token: answer.token, attempt: answer.attempt }
  }

  async buried(event: IdentifiedEvent = newEvent()): Promise<DeadLetterRef> {
    const { token, attempt } = await this.suspect(event)
    const error = new Error('no such account')
    const [answer] = await this.session.bury([{ event, token, attempt, error, reason: 'fatal' }])
    if (answer !== 'recorded') throw new Error(`expected a burial, got ${answer}`)
    return { kind: 'event', id: event.id }
  }

  /** Publishes a dead letter and returns it. */
  async published(ref: DeadLetterRef): Promise<DeadLetter | undefined> {
    const right = await this.session.takePublishing(ref, RIGHT_MS)
    if (right.kind !== 'taken') return undefined
    const answer = await this.session.endPublishing(ref, right.token, 'published')
    if (answer !== 'recorded') throw new Error(`expected a published letter, got ${answer}`)
    return right.letter
  }
}

/** Opens an inbox of its own for one test. */
export type Open<Tx> = () => Promise<Opened<Tx>>

export interface Opened<Tx> extends AsyncDisposable {
  readonly subject: InboxUnderTest<Tx>
  readonly steps: Steps<Tx>
}
