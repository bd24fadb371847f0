import type { Inbox } from '@onceward/core'
import { StoreUnavailableError } from '@onceward/core'
import type {
  BeginRequest,
  Begun,
  Burial,
  ConsumerRegistration,
  CountAnswer,
  CountedEvent,
  DeadLetterRef,
  DueEvent,
  Failure,
  IdentifiedEvent,
  InboxSession,
  Known,
  MessageCounts,
  OwnerToken,
  ParkAnswer,
  PauseStore,
  PublishingEnd,
  PublishingRight,
  Refusal,
  Release,
  Runtime,
  SweepStep,
  VerdictAnswer,
} from '@onceward/core/ports'
import { MemorySession } from '../../../packages/core/src/memory/inbox.ts'
import type { Audit } from '../judge/audit.ts'
import type { Link } from '../world/link.ts'
import type { Life } from '../world/process.ts'
import type { Database, History } from './database.ts'
import { type Business, beginAtServer, type Surroundings } from './transaction.ts'

export interface InboxOptions {
  readonly database: Database
  readonly audit: Audit
  readonly life: Life
  readonly link: Link
  /** The server's clock and timers. */
  readonly serverRuntime: Runtime
  /**
   * The history has no name, so no process answers from its memory. Small worlds try every order of what happens: what
   * each process remembers would be a part of every state, and a read of the name one more thing to happen.
   */
  readonly isNameless: boolean
  /** Guards look for pauses. */
  readonly hasPauses?: boolean | undefined
  /** Redelivered messages are counted before they are read. */
  readonly countsMessages?: boolean | undefined
}

/** The inbox of one process: the memory inbox of the core at the far end of a network. */
export function simulatedInbox(options: InboxOptions): Inbox<Business> {
  return {
    open: (registration) =>
      options.link.call('open', () => new SimulatedSession(options, registration)),
  }
}

class SimulatedSession implements InboxSession<Business> {
  readonly concurrency: number
  readonly sendsMessages = true
  readonly secret: Uint8Array = new Uint8Array(32)
  readonly messageCounts: MessageCounts | undefined
  readonly pauses: PauseStore | undefined
  readonly #options: InboxOptions
  readonly #registration: ConsumerRegistration
  readonly #surroundings: Surroundings
  #history: History | undefined
  #inner: MemorySession<undefined> | undefined

  constructor(options: InboxOptions, registration: ConsumerRegistration) {
    const { audit, database, life, link } = options
    this.#options = options
    this.#registration = { ...registration, runtime: options.serverRuntime }
    this.concurrency = registration.concurrency
    this.messageCounts = options.countsMessages === true ? this.#messageCounts() : undefined
    this.pauses = options.hasPauses === true ? this.#pauses(registration.consumer) : undefined
    this.#surroundings = {
      life,
      link,
      database,
      begin: (request, epoch) => this.#begin(request, epoch),
      fail: (failures) => this.#fail(failures),
      timedOut: (events) => audit.timedOut(events),
      committed: (events, effects, sends) => audit.committed(life, events, { effects, sends }),
    }
  }

  identity(): Promise<string> {
    if (this.#options.isNameless) return Promise.resolve('')
    return this.#call('identity', () => String(this.#options.database.generation))
  }

  begin(request: BeginRequest): Promise<Begun<Business>> {
    const { epoch } = this.#options.link
    return this.#options.link.call('begin', () => this.#begin(request, epoch))
  }

  async #begin(request: BeginRequest, epoch: number): Promise<Begun<Business>> {
    const { audit, serverRuntime } = this.#options
    const sinceMs = serverRuntime.monotonic()
    const begin = (asked: BeginRequest) => this.#at().begin(asked)
    const begun = await beginAtServer(begin, request, this.#surroundings, epoch)
    audit.waited(serverRuntime.monotonic() - sinceMs)
    return begun
  }

  classify(events: readonly IdentifiedEvent[]): Promise<readonly Known[]> {
    return this.#call('classify', () => this.#at().classify(events))
  }

  suspect(
    events: readonly IdentifiedEvent[],
    waitMs: number,
  ): Promise<
    | { readonly kind: 'answered'; readonly counted: readonly (CountedEvent | undefined)[] }
    | { readonly kind: 'held' }
  > {
    return this.#counting(
      'suspect',
      () => this.#at().suspect(events, waitMs),
      (answer) => (answer.kind === 'answered' ? answer.counted : []),
    )
  }

  count(
    events: readonly IdentifiedEvent[],
    run: 'together' | 'alone',
  ): Promise<readonly CountAnswer[]> {
    return this.#counting(
      'count',
      () => this.#at().count(events, run),
      (answers) =>
        events.map((event, index) => {
          const answer = answers[index]
          return answer?.kind === 'counted' ? { ...answer, event } : undefined
        }),
      run === 'alone',
    )
  }

  park(events: readonly IdentifiedEvent[], waitMs: number): Promise<readonly ParkAnswer[]> {
    return this.#write('park', () => this.#at().park(events, waitMs))
  }

  fail(failures: readonly Failure[]): Promise<readonly VerdictAnswer[]> {
    return this.#call('fail', () => this.#fail(failures))
  }

  bury(burials: readonly Burial[]): Promise<readonly VerdictAnswer[]> {
    return this.#write(
      'bury',
      () => this.#at().bury(burials),
      () => this.#concluded(burials),
    )
  }

  release(releases: readonly Release[]): Promise<readonly VerdictAnswer[]> {
    return this.#write(
      'release',
      () => this.#at().release(releases),
      (answers) => {
        this.#concluded(releases)
        for (const [index, { event }] of releases.entries()) {
          if (answers[index] === 'recorded') this.#options.audit.released(event.id)
        }
      },
    )
  }

  refuse(refusals: readonly Refusal[]): Promise<readonly DeadLetterRef[]> {
    return this.#write('refuse', () => this.#at().refuse(refusals))
  }

  takePublishing(ref: DeadLetterRef, rightMs: number): Promise<PublishingRight> {
    return this.#write(
      'take-publishing',
      () => this.#at().takePublishing(ref, rightMs),
      (answer) => {
        if (answer.kind === 'taken') this.#options.audit.acks.publishing(ref, rightMs)
      },
    )
  }

  endPublishing(ref: DeadLetterRef, token: OwnerToken, as: PublishingEnd): Promise<VerdictAnswer> {
    return this.#write(
      'end-publishing',
      () => this.#at().endPublishing(ref, token, as),
      (answer) => {
        if (answer === 'recorded') this.#options.audit.acks.publishing(ref, 0)
      },
    )
  }

  due(limit: number): Promise<readonly DueEvent[]> {
    return this.#call('due', () => this.#at().due(limit))
  }

  resolveRefused(id: string): Promise<void> {
    return this.#write('resolve-refused', () => this.#at().resolveRefused(id))
  }

  sweep(): Promise<SweepStep> {
    return this.#write('sweep', () => this.#at().sweep())
  }

  diagnose(error: unknown): 'serialization' | 'store' | 'other' {
    if (error instanceof StoreUnavailableError) return 'store'
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    return code === '40001' ? 'serialization' : 'other'
  }

  toJSON(): string {
    return 'session'
  }

  #pauses(consumer: string): PauseStore {
    const store = this.#options.database.pauses.of(consumer)
    return {
      read: () => this.#call('read-pause', () => store.read()),
      write: (pause) => this.#call('write-pause', () => store.write(pause)),
      end: () => this.#call('end-pause', () => store.end()),
    }
  }

  #messageCounts(): MessageCounts {
    const counts = (): MessageCounts => this.#at().messageCounts
    return {
      start: (messages) => this.#write('start-messages', () => counts().start(messages)),
      startAlone: (message) => this.#write('start-message', () => counts().startAlone(message)),
      failed: (messages) => this.#write('fail-messages', () => counts().failed(messages)),
      end: (messages) => this.#write('end-messages', () => counts().end(messages)),
    }
  }

  async #fail(failures: readonly Failure[]): Promise<readonly VerdictAnswer[]> {
    this.#options.database.remember()
    const answers = await this.#at().fail(failures)
    this.#concluded(failures)
    for (const [index, failure] of failures.entries()) {
      if (answers[index] === 'recorded') this.#options.audit.failed(failure)
    }
    return answers
  }

  #concluded(verdicts: readonly { readonly event: IdentifiedEvent }[]): void {
    for (const { event } of verdicts) this.#options.audit.concluded(this.#options.life, event.id)
  }

  /** Nobody hears of a count whose connection is lost before its answer. */
  async #counting<Answer>(
    verb: string,
    execute: () => Promise<Answer>,
    countedOf: (answer: Answer) => readonly (CountedEvent | undefined)[],
    isAlone = false,
  ): Promise<Answer> {
    const { audit, life, link } = this.#options
    const { epoch } = link
    let isAnswered = false
    const isHeard = (): boolean => isAnswered || link.epoch === epoch
    const answer = await this.#write(verb, execute, (answered) => {
      for (const counted of countedOf(answered)) {
        if (counted !== undefined) audit.counted(life, counted, { isAlone, isHeard })
      }
    })
    isAnswered = true
    return answer
  }

  #write<Answer>(
    verb: string,
    execute: () => Promise<Answer>,
    note: (answer: Answer) => void = () => undefined,
  ): Promise<Answer> {
    const { database } = this.#options
    return this.#call(verb, async () => {
      database.remember()
      const { history } = database
      const answer = await execute()
      if (history !== database.history) throw new StoreUnavailableError('the server was restarted')
      note(answer)
      return answer
    })
  }

  #call<Answer>(verb: string, execute: () => Answer | Promise<Answer>): Promise<Answer> {
    return this.#options.link.call(verb, execute)
  }

  /** The session on the history that the server has now. */
  #at(): MemorySession<undefined> {
    const { history } = this.#options.database
    if (this.#inner === undefined || this.#history !== history) {
      this.#history = history
      this.#inner = new MemorySession(history.store, this.#registration, undefined)
    }
    return this.#inner
  }
}
