import type {
  BeginRequest,
  Begun,
  Commit,
  CountedEvent,
  DeadLetterRef,
  EventId,
  IdentifiedEvent,
  InboxSession,
  InboxTransaction,
  OwnerToken,
} from '@onceward/core/ports'
import { assertSame } from './inbox-model-answers.ts'
import type { Step } from './inbox-model-steps.ts'
import { type InboxUnderTest, newEvent, RIGHT_MS, strangeToken } from './inbox-under-test.ts'

/** Waits for rows that an open transaction holds; nobody ends it meanwhile. */
const WAIT_MS = 40
const BUDGET_MS = 60_000
/** No sum of the steps in time comes near it, nor near five seconds or the right to publish. */
const DELAY_MS = 13_000
const MOST_DEFERS = 2

export type Pair<Item> = readonly [its: Item, mine: Item]

/** A count of an event, with the token that each store gave it. */
interface Owner {
  readonly event: number
  readonly attempt: number
  readonly tokens: Pair<OwnerToken>
}

interface Open {
  readonly events: readonly number[]
  readonly transactions: Pair<InboxTransaction<unknown>>
}

export interface ToldRules {
  /** They are numbered. */
  readonly events: number
  /** Resolves when no transaction is open. */
  readonly quiet: () => Promise<unknown>
  /** One of the inboxes does not wait for a sweep. */
  readonly forgetsByItself: boolean
}

/** Two inboxes that get the same commands. */
export class Told {
  readonly #subjects: Pair<InboxUnderTest<unknown>>
  readonly #sessions: Pair<InboxSession<unknown>>
  readonly #events: readonly IdentifiedEvent[]
  readonly #owners: Owner[] = []
  readonly #rights = new Map<number, Pair<OwnerToken>[]>()
  readonly #quiet: () => Promise<unknown>
  readonly #forgetsByItself: boolean
  #open: Open | undefined

  constructor(
    subjects: Pair<InboxUnderTest<unknown>>,
    sessions: Pair<InboxSession<unknown>>,
    { events, forgetsByItself, quiet }: ToldRules,
  ) {
    this.#quiet = quiet
    this.#forgetsByItself = forgetsByItself
    this.#events = Array.from({ length: events }, () => newEvent())
    this.#subjects = subjects
    this.#sessions = sessions
  }

  async tell(step: Step): Promise<void> {
    await this.#tell(step)
    await this.#same((session) => session.classify(this.#events))
  }

  #tell(step: Step): Promise<unknown> {
    switch (step.kind) {
      case 'pass':
        return this.#pass(step.ms)
      case 'suspect':
        return this.#suspect(step.events)
      case 'park':
        return this.#same((session) => session.park(this.#named(step.events), WAIT_MS))
      case 'count':
        return this.#count(step.events, step.run)
      case 'verdict':
        return this.#verdict(step)
      case 'begin':
        return this.#begin(step)
      case 'end':
        return this.end(step.how)
      case 'take-publishing':
        return this.#takePublishing(step.event)
      case 'end-publishing':
        return this.#endPublishing(step)
      case 'replay':
        return this.#replay(step.event)
      case 'due':
        return this.#due()
      case 'sweep':
        return this.#sweep()
      default:
        return step satisfies never
    }
  }

  /** A transaction that is open for so long is over: its budget has ended it. */
  async #pass(ms: number): Promise<void> {
    await this.end('rollback')
    await Promise.all(this.#subjects.map((subject) => subject.pass(ms)))
    if (this.#forgetsByItself) await this.#sweep()
  }

  async #suspect(events: readonly number[]): Promise<void> {
    const answers = await this.#same((session) => session.suspect(this.#named(events), WAIT_MS))
    const counted = answers.map((each) => (each.kind === 'answered' ? each.counted : []))
    this.#own(events, counted as unknown as Pair<readonly (CountedEvent | undefined)[]>)
  }

  async #count(events: readonly number[], run: 'together' | 'alone'): Promise<void> {
    const answers = await this.#same((session) => session.count(this.#named(events), run))
    const counted = answers.map((some) =>
      some.map((each) => (each.kind === 'counted' ? each : undefined)),
    )
    this.#own(events, counted as unknown as Pair<readonly (CountedEvent | undefined)[]>)
  }

  #own(
    events: readonly number[],
    [its, mine]: Pair<readonly (Pick<CountedEvent, 'attempt' | 'token'> | undefined)[]>,
  ): void {
    for (const [at, event] of events.entries()) {
      const [one, other] = [its[at], mine[at]]
      if (one === undefined || other === undefined) continue
      this.#owners.push({ event, attempt: one.attempt, tokens: [one.token, other.token] })
    }
  }

  async #verdict({ as, events, owner, verb }: Extract<Step, { kind: 'verdict' }>): Promise<void> {
    // A verdict waits seconds for a locked row in Postgres, and is then lost, as it is at once in memory.
    const free = events.filter((event) => !this.#isOpen(event))
    const owners = free.flatMap((event) => this.#ownerOf(event, owner) ?? [])
    const error = new Error('why')
    await this.#same((session, side) => {
      const counts = owners.map(({ attempt, event, tokens }) => {
        const { [side]: token } = tokens
        return { event: this.#event(event), attempt, token, error }
      })
      if (verb === 'fail') {
        return session.fail(counts.map((count) => ({ ...count, delayMs: DELAY_MS })))
      }
      if (verb === 'defer') {
        const deferral = { error: undefined, delayMs: DELAY_MS, deferral: { most: MOST_DEFERS } }
        return session.fail(counts.map((count) => ({ ...count, ...deferral })))
      }
      if (verb === 'bury') return session.bury(counts.map((one) => ({ ...one, reason: 'fatal' })))
      const owned = counts.filter(({ token }) => token !== undefined)
      return session.release(
        owned.map(({ event, token }) => ({ event, token: token as OwnerToken, as })),
      )
    })
  }

  /** `none`: the verdict of a clean run, for which nothing was written. */
  #ownerOf(
    event: number,
    which: 'last' | 'first' | 'strange' | 'none',
  ):
    | {
        readonly event: number
        readonly attempt: number
        readonly tokens: Pair<OwnerToken | undefined>
      }
    | undefined {
    if (which === 'none') return { event, attempt: 1, tokens: [undefined, undefined] }
    if (which === 'strange') {
      return { event, attempt: 1, tokens: [strangeToken(), strangeToken()] }
    }
    const owners = this.#owners.filter((owner) => owner.event === event)
    return which === 'last' ? owners.at(-1) : owners[0]
  }

  async #begin({ claim, events, owner }: Extract<Step, { kind: 'begin' }>): Promise<void> {
    if (this.#open !== undefined) return
    const owners = events.flatMap((event) => this.#ownerOf(event, owner) ?? [])
    const named = claim === 'fresh' ? events : owners.map(({ event }) => event)
    if (named.length === 0) return
    const begun: (Begun<unknown> | undefined)[] = [undefined, undefined]
    await this.#same(async (session, side) => {
      const counted = owners.map(({ attempt, event, tokens }): CountedEvent => {
        return { event: this.#event(event), attempt, token: tokens[side] as OwnerToken }
      })
      const request: BeginRequest = {
        claim:
          claim === 'fresh'
            ? { kind: 'fresh', events: this.#named(events) }
            : { kind: 'counted', events: counted },
        ...{ waitMs: WAIT_MS, budgetMs: BUDGET_MS },
      }
      const answer = await session.begin(request)
      begun[side] = answer
      const claimed = answer.kind === 'open' ? [...answer.claimed].sort() : []
      return { kind: answer.kind, claimed }
    })
    const [its, mine] = begun
    if (its?.kind !== 'open' || mine?.kind !== 'open') {
      await this.#quiet()
      return
    }
    const claimed = named.filter((event) => its.claimed.has(this.#event(event).id))
    this.#open = { events: claimed, transactions: [its.transaction, mine.transaction] }
  }

  async end(how: Extract<Step, { kind: 'end' }>['how']): Promise<void> {
    const open = this.#open
    this.#open = undefined
    if (open === undefined) return
    const ids = open.events.map((event) => this.#event(event).id)
    const results = new Map<EventId, string>(ids.map((id) => [id, `{"of":"${id}"}`]))
    const commit: Commit = { results, recovered: ids }
    const { [0]: event } = open.events
    const failing = event === undefined ? undefined : this.#ownerOf(event, 'last')
    await this.#same<unknown>((_, side) => {
      const { [side]: transaction } = open.transactions
      if (how === 'commit') return transaction.commit(commit)
      if (how === 'rollback' || failing === undefined || event === undefined) {
        return transaction.rollback()
      }
      const { attempt, tokens } = failing
      const failure = { event: this.#event(event), attempt, token: tokens[side] }
      return transaction.rollbackAndFail([{ ...failure, error: 'why', delayMs: DELAY_MS }])
    })
  }

  async #takePublishing(event: number): Promise<void> {
    const answers = await this.#same((session) =>
      session.takePublishing(this.#ref(event), RIGHT_MS),
    )
    const [its, mine] = answers
    if (its.kind !== 'taken' || mine.kind !== 'taken') return
    const before = this.#rights.get(event) ?? []
    this.#rights.set(event, [...before, [its.token, mine.token]])
  }

  async #endPublishing({ as, event, owner }: Extract<Step, { kind: 'end-publishing' }>) {
    const rights = this.#rights.get(event) ?? []
    const tokens = owner === 'last' ? rights.at(-1) : rights[0]
    if (tokens === undefined) return
    await this.#same((session, side) => session.endPublishing(this.#ref(event), tokens[side], as))
  }

  async #replay(event: number): Promise<void> {
    if (this.#isOpen(event)) return
    await Promise.all(this.#subjects.map((subject) => subject.replay(this.#ref(event))))
  }

  /** Dead letters to publish are offered by pauses of the store's own. */
  async #due(): Promise<void> {
    await this.#same(async (session) => {
      const due = await session.due(100)
      return due
        .filter(({ what }) => what === 'run')
        .map(({ ref }) => ref.id)
        .sort()
    })
  }

  async #sweep(): Promise<void> {
    for (const session of this.#sessions) {
      for (let step = await session.sweep(); step?.finished === false; ) {
        step = await session.sweep()
      }
    }
  }

  /** Asks both, and compares their answers but for tokens and for what their clocks differ by. */
  async #same<Answer>(
    ask: (session: InboxSession<unknown>, side: 0 | 1) => Promise<Answer>,
  ): Promise<Pair<Answer>> {
    const [its, mine] = this.#sessions
    const answers = await Promise.all([ask(its, 0), ask(mine, 1)])
    assertSame(answers)
    return answers
  }

  #event(number: number): IdentifiedEvent {
    return this.#events[number] as IdentifiedEvent
  }

  #named(events: readonly number[]): readonly IdentifiedEvent[] {
    return events.map((number) => this.#event(number))
  }

  #ref(event: number): DeadLetterRef {
    return { kind: 'event', id: this.#event(event).id }
  }

  #isOpen(event: number): boolean {
    return this.#open?.events.includes(event) === true
  }
}
