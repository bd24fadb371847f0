import {
  type Delivery,
  type Guard,
  type GuardEvent,
  type Logger,
  type Settlement,
  StoreUnavailableError,
} from '@onceward/core'
import { type GuardPort, portOf } from '@onceward/core/adapter'
import { createCallerGuard } from '@onceward/core/edge'
import { createHandler } from '../faults/handler.ts'
import type { Plan } from '../faults/plan.ts'
import { Audit, CONSUMER } from '../judge/audit.ts'
import { Database } from '../stores/database.ts'
import { simulatedInbox } from '../stores/inbox.ts'
import { LeaseServer, simulatedLeases } from '../stores/lease-server.ts'
import { createDice, type Dice } from '../world/dice.ts'
import { Link } from '../world/link.ts'
import { createLife, createRuntime, type Life } from '../world/process.ts'
import { type Actor, Scheduler } from '../world/scheduler.ts'
import { Answers } from './answers.ts'
import type { CallerPlan, ClientPlan } from './plan.ts'

const quietly = (): void => undefined
const LOGGER: Logger = { debug: quietly, info: quietly, warn: quietly, error: quietly }
/** From a crash to the next life, ms. */
const RESTART_MS = 500
/** Pauses of a client before its next request, ms. */
const PAUSES_MS = [0, 50, 300, 1_000] as const

/** A server of the route. */
export interface Server {
  readonly life: Life
  readonly guard: Guard
  readonly port: GuardPort
  readonly links: { readonly database: Link; readonly leases: Link }
}

/** Clients, servers of one route, and the stores behind them. */
export class CallerWorld {
  readonly plan: CallerPlan
  readonly scheduler: Scheduler
  readonly network: Actor = { name: 'servers', isAlive: true, frozenUntilMs: 0 }
  readonly audit: Audit
  readonly answers: Answers
  readonly database: Database
  readonly leases: LeaseServer
  readonly dice: Dice
  readonly servers: (Server | undefined)[] = []
  /** Clients without an answer, and how to make each give its request up. */
  readonly waiting: Map<ClientPlan, (() => void) | undefined>
  isEnding = false
  #lives = 0
  #runs = 0

  constructor(plan: CallerPlan, isTraced: boolean) {
    this.plan = plan
    this.dice = createDice(plan.seed).apart('world')
    this.scheduler = new Scheduler(isTraced)
    const { network, scheduler } = this
    this.audit = new Audit(plan as unknown as Plan, scheduler)
    const clock = createRuntime(scheduler, this.dice.apart('database'), () => network)
    this.database = new Database({ scheduler, servers: network, clock, isRemembering: false })
    this.audit.database = this.database
    this.leases = new LeaseServer(scheduler, network, this.audit)
    this.answers = new Answers(plan, this.audit, this.database)
    for (let index = 0; index < plan.processes; index += 1) this.start(index)
    this.waiting = new Map(plan.clients.map((client) => [client, undefined]))
    for (const client of plan.clients) void this.#live(client)
  }

  start(index: number): void {
    const { scheduler } = this
    this.#lives += 1
    const name = `P${index}.${this.#lives}`
    const onStall = (life: Life, forMs: number): void => this.audit.stalled(life, forMs)
    const dice = this.dice.apart(name)
    const life = createLife({ scheduler, dice, index, name, isPlain: false, onStall })
    const links = {
      database: this.#link(life, 'database', () => this.database.isUp()),
      leases: this.#link(life, 'lease store', () => this.leases.isUp()),
    }
    const guard = this.#guardOf(life, links)
    this.servers[index] = { life, guard, port: portOf(guard), links }
  }

  /** Nothing of the process goes on; what it has sent may still arrive. */
  crash(life: Life): void {
    const server = this.servers[life.index]
    if (server?.life !== life) return
    life.isAlive = false
    this.scheduler.drop(life)
    for (const link of Object.values(server.links)) link.abandon(() => this.dice.chance(0.5))
    this.audit.died(life)
    this.answers.died(life)
    this.servers[life.index] = undefined
    this.database.orphan(life)
    this.#after(RESTART_MS, () => {
      if (!this.isEnding && this.servers[life.index] === undefined) this.start(life.index)
    })
  }

  /** Time has somewhere to go. */
  wake(delayMs: number): void {
    this.#after(delayMs, quietly)
  }

  #after(delayMs: number, callback: () => void): () => void {
    return this.scheduler.setTimer(this.network, callback, delayMs)
  }

  async #live(client: ClientPlan): Promise<void> {
    await this.#pause(client.startsAtMs)
    for (;;) {
      const server = this.dice.pick([this.servers[0], ...this.servers.slice(1)])
      const settlement = server && (await this.#ask(client, server))
      if (settlement !== undefined && isFinal(settlement)) break
      await this.#pause(this.dice.pick(PAUSES_MS))
    }
    this.waiting.delete(client)
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.#after(ms, resolve))
  }

  /** Sends a request. Undefined if the client hangs up, or its server dies. */
  #ask(client: ClientPlan, { life, port }: Server): Promise<Settlement | undefined> {
    const key = this.answers.keyOf(client)
    const { scheduler } = this
    const { promise, resolve } = Promise.withResolvers<Settlement | undefined>()
    const giveUp = (): void => resolve(undefined)
    this.waiting.set(client, giveUp)
    const run = async (): Promise<void> => {
      const request = this.answers.sent(client, life)
      const [settlement] = await port.run([toDelivery(key, client)])
      if (settlement === undefined || !life.isAlive) return
      scheduler.note(`${life.name} ${settlement.kind} ${key}`)
      this.answers.settled(request, settlement)
      scheduler.add(life, 'answer', () => resolve(settlement))
    }
    scheduler.add(life, `request ${key}`, () => void run())
    // A client that hears nothing from a dead server notices at last.
    const cancel = this.#after(LONGEST_REQUEST_MS, giveUp)
    return promise.finally(cancel)
  }

  #guardOf(life: Life, links: Server['links']): Guard {
    const { composition } = this.plan
    const leases =
      composition === 'inbox' ? undefined : simulatedLeases(this.leases, links.leases, { life })
    const inbox = simulatedInbox({
      ...{ database: this.database, audit: this.audit, life, link: links.database },
      serverRuntime: createRuntime(this.scheduler, this.dice.apart(`row-${life.name}`), () => ({
        ...this.network,
        name: `row-${life.name}`,
      })),
      isNameless: false,
    })
    const stores =
      composition === 'leases' ? { leases, onTakeover: 'dead-letter' } : { inbox, leases }
    const options = {
      ...{ consumer: CONSUMER, runtime: life.runtime, logger: LOGGER, onConflict: 'ack' },
      ...{ leaseMs: LEASE_MS, deadlineMs: 9_000, ...stores },
    } as unknown as Parameters<typeof createCallerGuard>[1]
    const handler = this.#handlerOf(life)
    return createCallerGuard('createTestGuard', options, { isAnswer: () => false, handler })
  }

  #handlerOf(life: Life): Parameters<typeof createCallerGuard>[2]['handler'] {
    const { audit, scheduler } = this
    const inner = createHandler({
      ...{ plan: this.plan as unknown as Plan, audit, scheduler, life },
      kill: (by) => {
        audit.killed(life, by)
        this.crash(life)
      },
    })
    return async (event: GuardEvent<unknown>, context) => {
      this.#runs += 1
      const run = this.#runs
      await inner(event, context as Parameters<typeof inner>[1])
      return { of: `${event.key}:${(event.payload as { variant: string }).variant}`, run }
    }
  }

  #link(life: Life, name: string, isReachable: () => boolean): Link {
    return new Link({
      ...{ scheduler: this.scheduler, from: life, servers: this.network, isReachable },
      lost: (verb) => new StoreUnavailableError(`the ${name} did not answer ${verb}`),
      executed: () => this.answers.look(),
    })
  }
}

/** Far longer than a schedule: a client whose server has died must not wait for the lease. */
const LEASE_MS = 60_000
const LONGEST_REQUEST_MS = 20_000

/** A client keeps such an answer. It sends its request again after any other. */
function isFinal({ kind }: Settlement): boolean {
  return kind === 'ack' || kind === 'dead-letter'
}

function toDelivery(key: string, { variant }: ClientPlan): Delivery {
  return {
    body: new TextEncoder().encode(JSON.stringify({ variant })),
    headers: { 'idempotency-key': key },
    source: { broker: 'simulated', queue: 'orders' },
  }
}
