import { createGuard, type Delivery, type Logger, StoreUnavailableError } from '@onceward/core'
import type { DeadLetter, EventId, Runtime } from '@onceward/core/ports'
import { createQueue, type Message, type SimulatedBroker } from '../brokers/broker.ts'
import { Consumer } from '../brokers/consumer.ts'
import { DeadLetterPlace } from '../brokers/dead-letter-place.ts'
import { createLog } from '../brokers/log-broker.ts'
import { createHandler } from '../faults/handler.ts'
import type { Plan } from '../faults/plan.ts'
import { Audit, CONSUMER } from '../judge/audit.ts'
import { Database } from '../stores/database.ts'
import { simulatedInbox } from '../stores/inbox.ts'
import { LeaseServer, simulatedLeases } from '../stores/lease-server.ts'
import { TableWatch } from '../stores/tables.ts'
import { Bystander } from './bystander.ts'
import { createDice, type Dice } from './dice.ts'
import { Link } from './link.ts'
import { createLife, createRuntime, type Life } from './process.ts'
import { RelayProcess, type Sink } from './relay.ts'
import { type Actor, Scheduler } from './scheduler.ts'

const quietly = (): void => undefined
const LOGGER: Logger = { debug: quietly, info: quietly, warn: quietly, error: quietly }
/** A handling-over that is not settled by then is another's, ms. */
const VISIBILITY_MS = 10_000
/** From a crash to the next life, ms. */
const RESTART_MS = 500

/** A process with all it is connected to. */
export interface Member {
  readonly life: Life
  readonly links: { readonly database: Link; readonly leases: Link; readonly broker: Link }
  readonly consumer: Consumer
}

/** Processes, servers, and everything between them. */
export class World {
  readonly plan: Plan
  readonly scheduler: Scheduler
  readonly servers: Actor = { name: 'servers', isAlive: true, frozenUntilMs: 0 }
  readonly audit: Audit
  readonly database: Database
  readonly leases: LeaseServer
  readonly broker: SimulatedBroker
  readonly place: DeadLetterPlace
  readonly dice: Dice
  /** Index by process; undefined between two lives. */
  readonly members: (Member | undefined)[] = []
  readonly relays: (RelayProcess | undefined)[] = []
  readonly sink: Sink = { refusesUntilMs: 0, downUntilMs: 0, dislikesUntilMs: 0 }
  #relayLives = 0
  /** No more lives are begun. */
  isEnding = false
  readonly #tables: TableWatch
  readonly #lives: number[] = []
  readonly #poison: { left: number }

  constructor(plan: Plan, isTraced: boolean) {
    this.plan = plan
    this.#poison = { left: plan.bystander?.poison ?? 0 }
    this.dice = createDice(plan.seed).apart('world')
    this.scheduler = new Scheduler(isTraced)
    const { scheduler, servers } = this
    this.audit = new Audit(plan, scheduler)
    const isRemembering = plan.faults.some(({ kind }) => kind === 'pg-failover')
    const clock = createRuntime(scheduler, this.dice.apart('database'), () => servers)
    this.database = new Database({ scheduler, servers, clock, isRemembering })
    this.audit.database = this.database
    this.leases = new LeaseServer(scheduler, servers, this.audit)
    this.broker = this.#createBroker()
    const onLetter = (letter: DeadLetter): void => this.audit.acks.deadLettered(letter)
    this.place = new DeadLetterPlace({ scheduler, servers, onLetter })
    this.#tables = new TableWatch(this.database, this.audit, plan)
    for (let index = 0; index < plan.processes; index += 1) this.start(index)
    const { relays = 0 } = plan.outbox ?? {}
    for (let index = 0; index < relays; index += 1) this.#startRelay(index)
  }

  #startRelay(index: number): void {
    this.#relayLives += 1
    const name = `R${index}.${this.#relayLives}`
    const dice = this.dice.apart(name)
    const life = createLife({
      ...{ scheduler: this.scheduler, dice, index, name, isPlain: false, onStall: quietly },
    })
    const links = {
      database: this.#link(life, 'database', () => this.database.isUp()),
      sink: this.#link(life, 'sink', () => true),
    }
    const { audit, database, sink } = this
    this.relays[index] = new RelayProcess({
      ...{ life, links, database, audit: audit.outbox, sink, logger: LOGGER },
      dice: dice.apart('sink'),
    })
  }

  crashRelay(life: Life): void {
    const relay = this.relays[life.index]
    if (relay?.life !== life) return
    for (const link of Object.values(relay.links)) link.abandon(() => this.dice.chance(0.5))
    this.relayEnded(life)
  }

  relayEnded(life: Life): void {
    if (this.relays[life.index]?.life !== life) return
    life.isAlive = false
    this.scheduler.drop(life)
    this.relays[life.index] = undefined
    const again = (): void => {
      if (!this.isEnding && this.relays[life.index] === undefined) this.#startRelay(life.index)
    }
    this.scheduler.setTimer(this.servers, again, RESTART_MS)
  }

  start(index: number): void {
    const { isPlain = false } = this.plan
    const number = (this.#lives[index] ?? 0) + 1
    this.#lives[index] = number
    const name = `P${index}.${number}`
    const dice = this.dice.apart(name)
    const onStall = (life: Life, forMs: number): void => this.audit.stalled(life, forMs)
    const life = createLife({ scheduler: this.scheduler, dice, index, name, isPlain, onStall })
    this.audit.pauses.blind(life, this.scheduler.nowMs)
    const links = {
      database: this.#link(life, 'database', () => this.database.isUp()),
      leases: this.#link(life, 'lease store', () => this.leases.isUp()),
      broker: this.#link(life, 'broker', () => true),
    }
    const guard = createGuard(
      this.#guardOptions(life, links),
      createHandler({
        plan: this.plan,
        audit: this.audit,
        scheduler: this.scheduler,
        life,
        kill: (by) => {
          this.audit.killed(life, by)
          this.crash(life)
        },
      }) as Parameters<typeof createGuard>[1],
    )
    const consumer = new Consumer({
      guard,
      broker: this.broker,
      place: this.place,
      link: links.broker,
      life,
      audit: this.audit,
      loops: this.plan.loops,
      batchSize: this.plan.batchSize,
      isSplit: this.plan.splits === true,
      bystander: this.#createBystander(life),
      note: (what) => this.scheduler.note(`${life.name} ${what}`),
      acked: (message, decision) =>
        this.audit.acks.acked(message, decision, (id) => this.#isDone(id)),
    })
    this.members[index] = { life, links, consumer }
  }

  /** Nothing of the process goes on; what it has sent may still arrive, by chance or where `landing` says so. */
  crash(life: Life, landing?: boolean): void {
    const member = this.members[life.index]
    if (member?.life !== life) return
    const lands = (): boolean => landing ?? this.dice.chance(0.5)
    life.isAlive = false
    this.scheduler.drop(life)
    for (const link of Object.values(member.links)) link.abandon(lands)
    this.audit.died(life)
    this.members[life.index] = undefined
    this.database.orphan(life)
    this.broker.left(life)
    this.#restartLater(life.index)
  }

  /** The process has drained. */
  ended(life: Life): void {
    if (this.members[life.index]?.life !== life) return
    this.members[life.index] = undefined
    life.isAlive = false
    this.#restartLater(life.index)
  }

  /** Time has somewhere to go. */
  wake(delayMs: number): void {
    this.scheduler.setTimer(this.servers, quietly, delayMs)
  }

  #restartLater(index: number): void {
    this.scheduler.setTimer(
      this.servers,
      () => {
        if (!this.isEnding && this.members[index] === undefined) this.start(index)
      },
      RESTART_MS,
    )
  }

  /** Checks what can be seen from outside. */
  look(): void {
    this.#tables.look()
  }

  /** Every event is processed or dead, and the broker has forgotten its messages. */
  isDone(): boolean {
    if (!this.broker.isEmpty() || this.database.history.outbox.isWaiting) return false
    if (
      this.members.some((member) => (this.audit.inHand.get(member?.life as Life)?.size ?? 0) > 0)
    ) {
      return false
    }
    if (this.plan.composition === 'leases') return true
    const { store } = this.database.history
    return [...this.audit.cases.values()].every(({ id, wasDecided }) => {
      const row = store.tables.rows.get(id)
      if (row === undefined) return wasDecided || this.#isRefusedOnly(id)
      if (row.state === 'done') return true
      // Acknowledged, and lost by a failover: nobody brings it back.
      if (wasDecided && this.audit.failovers > 0) return true
      return row.state === 'dead' && store.tables.troubles.get(id)?.published === true
    })
  }

  /** How the events have ended. */
  ends(): { readonly processed: number; readonly dead: number } {
    const all = [...this.audit.cases.values()]
    if (this.plan.composition === 'leases') {
      const processed = all.filter(({ id }) => this.#isDone(id)).length
      return { processed, dead: all.filter(({ letters }) => letters.length > 0).length }
    }
    const { rows } = this.database.history.store.tables
    const count = (state: string): number =>
      all.filter(({ id }) => rows.get(id)?.state === state).length
    return { processed: count('done'), dead: count('dead') }
  }

  #isRefusedOnly(id: EventId): boolean {
    const { index } = this.audit.caseOf(id)
    return this.plan.messages.every(({ event, variant }) => event !== index || variant !== 'plain')
  }

  #isDone(id: EventId): boolean {
    return this.leases.stateOf('alone', id).kind === 'done'
  }

  #createBystander(life: Life): Bystander | undefined {
    const { audit, plan, scheduler } = this
    if (plan.bystander === undefined) return undefined
    const kill = (): void => {
      audit.disturbed(life)
      this.crash(life)
    }
    const dice = this.dice.apart(`bystander-${life.name}`)
    return new Bystander({ life, scheduler, audit, dice, poison: this.#poison, kill })
  }

  #guardOptions(life: Life, links: Member['links']): Parameters<typeof createGuard>[0] {
    const { composition, maxAttempts, transaction } = this.plan
    const common = {
      consumer: CONSUMER,
      runtime: life.runtime,
      logger: LOGGER,
      // With few slots events wait for one, and a commit begins the next of them.
      concurrency: this.plan.isPlain === true ? 8 : this.dice.apart('concurrency').pick([1, 2, 8]),
      leaseMs: 6_000,
      retry: { attempts: maxAttempts, baseMs: 500, maxMs: 3_000 },
      ...(this.plan.splits === true
        ? { split: ({ payload }: { payload: unknown }) => [payload] }
        : {}),
      ...(this.plan.hasOwnLanes === true ? { orderingKey: this.#laneOf } : {}),
      ...(this.plan.replies === true ? { afterCommit: this.#replier(life, links.broker) } : {}),
    }
    const leases =
      composition === 'inbox'
        ? undefined
        : simulatedLeases(this.leases, links.leases, {
            life,
            isByNeed: this.plan.isByNeed,
          })
    if (composition === 'leases' && leases !== undefined) {
      return { ...common, leases, onTakeover: 'dead-letter', deadlineMs: 60_000 }
    }
    const inbox = simulatedInbox({
      database: this.database,
      audit: this.audit,
      life,
      link: links.database,
      serverRuntime: this.#serverRuntime(life),
      isNameless: this.plan.isPlain === true,
      countsMessages: this.plan.hasOwnLanes === true,
      hasPauses: this.plan.hasPauses,
    })
    return { ...common, inbox, leases, transaction, deadlineMs: 9_000 } as unknown as Parameters<
      typeof createGuard
    >[0]
  }

  /** The function of the user that finds the lane of a message. */
  readonly #laneOf = ({ headers }: Delivery): string | undefined =>
    this.plan.events.find(({ key }) => key === headers['idempotency-key'])?.lane

  /** A cut of the broker loses the acknowledgement with the reply, so a reply may also be refused by itself. */
  #replier(life: Life, broker: Link) {
    const dice = this.dice.apart(`reply-${life.name}`)
    return (_: unknown, { key }: { readonly key: string }): Promise<void> =>
      broker.call('reply', () => {
        if (dice.chance(0.1)) throw new Error('the reply was refused')
        this.audit.byKey(key).isReplied = true
      })
  }

  /** The server's clock and timers, with ids that depend on nobody but the client. */
  #serverRuntime(life: Life): Runtime {
    const { servers } = this
    const name = `row-${life.name}`
    return createRuntime(this.scheduler, this.dice.apart(name), () => ({
      ...servers,
      name,
    }))
  }

  #link(life: Life, name: string, isReachable: () => boolean): Link {
    return new Link({
      scheduler: this.scheduler,
      from: life,
      servers: this.servers,
      isReachable,
      lost: (verb) => new StoreUnavailableError(`the ${name} did not answer ${verb}`),
      executed: () => this.look(),
    })
  }

  #createBroker(): SimulatedBroker {
    const { plan, scheduler } = this
    const messages = plan.messages.map(({ event, variant }, number): Message => {
      const { key = '', lane } = plan.events[event] ?? {}
      const body = variant === 'garbage' ? '{' : JSON.stringify({ variant })
      return { number, plan: { event, variant }, key, lane, body: new TextEncoder().encode(body) }
    })
    const clock = {
      nowMs: () => scheduler.nowMs,
      wake: (delayMs: number) => this.wake(delayMs),
      below: (limit: number) => (plan.isPlain === true ? 0 : this.dice.below(limit)),
    }
    if (plan.broker === 'log') return createLog(messages, clock)
    const visibilityMs = plan.broker === 'channel' ? Number.POSITIVE_INFINITY : VISIBILITY_MS
    return createQueue({ kind: plan.broker, visibilityMs }, messages, clock)
  }
}
