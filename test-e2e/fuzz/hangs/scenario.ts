import { migrate } from '@onceward/postgres'
import { until } from '@onceward/testing'
import pg from 'pg'
import { freshName, type QueueUnderTest } from '../../brokers/queue-under-test.ts'
import { openSockets } from '../../support/open-sockets.ts'
import type { Deed, Order } from '../../support/workers/protocol.ts'
import { HEALTHY_MS, type History, NAMED_MS, RECOVERY_MS, type SentEvent } from './judge.ts'
import { hang, type Links, leftOpen, openLinks } from './links.ts'
import { isSubjectHealthy, mustBeNamed, NAMES, type Plan, workMs } from './plan.ts'
import type { Servers } from './servers.ts'
import { postgresAddress, type Side, type SideParts, startSide } from './side.ts'

const CALM = 5
const DEEDS: Readonly<Record<SentEvent['kind'], Deed | undefined>> = {
  good: undefined,
  flaky: 'fail-once',
  fatal: 'fatal-until-mended',
}
const TICK_MS = 50
const RECOVERY_LOOK_MS = 500

/** A database that all scenarios share. */
export interface Ledger {
  readonly url: string
  readonly pool: pg.Pool
}

export async function openLedger(servers: Servers): Promise<Ledger> {
  const url = await servers.postgres.createDatabase()
  const pool = new pg.Pool({ connectionString: url, max: 4 })
  // The servers may stop before the pool has closed all its connections.
  pool.on('error', () => undefined)
  await migrate(pool)
  await pool.query('create table effects (consumer text not null, id text not null)')
  return { url, pool }
}

/** Plays one plan. */
export async function playPlan(servers: Servers, ledger: Ledger, plan: Plan): Promise<History> {
  const scenario = await Scenario.open(servers, ledger, plan)
  try {
    await scenario.calm()
    await scenario.hang()
    await scenario.recover()
    return await scenario.end()
  } finally {
    await scenario.close()
  }
}

class Scenario {
  readonly #plan: Plan
  readonly #ledger: Ledger
  readonly #links: Links
  readonly #parts: Readonly<Record<SentEvent['side'], SideParts>>
  #neighbour: Side
  #subject: Side
  readonly #sent: SentEvent[] = []
  readonly #letters = new Set<string>()
  readonly #named = new Map<string, string>()
  readonly #neighbourNamed = new Set<string>()
  readonly #drainsMs: number[] = []
  readonly #closesMs: number[] = []
  #stalled: readonly string[] = []
  #unrecovered: readonly string[] = []
  #calmConnections = 0
  #peakConnections = 0

  private constructor(
    given: { readonly plan: Plan; readonly ledger: Ledger; readonly links: Links } & {
      readonly parts: Readonly<Record<SentEvent['side'], SideParts>>
    } & Readonly<Record<SentEvent['side'], Side>>,
  ) {
    this.#plan = given.plan
    this.#ledger = given.ledger
    this.#links = given.links
    this.#parts = given.parts
    this.#subject = given.subject
    this.#neighbour = given.neighbour
  }

  static async open(servers: Servers, ledger: Ledger, plan: Plan): Promise<Scenario> {
    const broker = await servers.broker(plan.adapter)
    const redis = servers.redis.connection
    const links = await openLinks({
      postgres: postgresAddress(ledger.url),
      ...{ redis, broker: broker.address, publish: broker.address },
    })
    const partsOf = async (side: string, own: Links | undefined): Promise<SideParts> => ({
      name: `${side}-${freshName()}`,
      ...{ plan, databaseUrl: ledger.url, redis, broker, links: own },
      queue: await broker.createQueue(),
    })
    const [mine, other] = await Promise.all([
      partsOf('subject', links),
      partsOf('neighbour', undefined),
    ])
    const [subject, neighbour] = await Promise.all([startSide(mine), startSide(other)])
    const parts = { subject: mine, neighbour: other }
    return new Scenario({ plan, ledger, links, parts, subject, neighbour })
  }

  /** Everything works: clients have connected, and the caches are filled. */
  async calm(): Promise<void> {
    const sent = await this.#send(['subject', 'neighbour'], 'good', CALM)
    await this.#haveEffects(sent, 60_000)
    this.#calmConnections = this.#link.connections
  }

  async hang(): Promise<void> {
    const plan = this.#plan
    const end = await hang(this.#links, plan)
    const beganAt = performance.now()
    try {
      const watching = this.#watch()
      const healthy = await this.#load()
      const [stalled] = await Promise.all([
        this.#haveEffects(healthy, HEALTHY_MS + workMs(plan)),
        until(() => !mustBeNamed(plan) || this.#isNamed, {
          deadlineMs: NAMED_MS,
          everyMs: TICK_MS,
        }).catch(() => undefined),
      ])
      this.#stalled = stalled
      const leftMs = plan.forMs - (performance.now() - beganAt)
      if (leftMs > 0) await new Promise((resolve) => setTimeout(resolve, leftMs))
      if (plan.drains) await this.#shutDown(this.#subject)
      clearInterval(watching)
    } finally {
      await end()
    }
    if (!plan.drains) return
    await this.#subject.close()
    this.#subject = await startSide(this.#parts.subject)
  }

  async recover(): Promise<void> {
    await this.#send(['neighbour'], 'good', CALM)
    const missing = async (): Promise<readonly string[]> => {
      const unwell = this.#unwell()
      // A dependency is asked when there is work: traffic goes on.
      if (unwell.length > 0) await this.#send(['subject'], 'good', 1)
      return [...(await this.#missing(this.#sent)), ...unwell]
    }
    await until(async () => (await missing()).length === 0, {
      deadlineMs: RECOVERY_MS,
      everyMs: RECOVERY_LOOK_MS,
    }).catch(() => undefined)
    this.#unrecovered = await missing()
  }

  async end(): Promise<History> {
    await Promise.all([this.#shutDown(this.#subject), this.#shutDown(this.#neighbour)])
    await Promise.all([this.#subject.close(), this.#neighbour.close()])
    return {
      plan: this.#plan,
      sent: this.#sent,
      effects: await this.#effects(),
      letters: this.#letters,
      stalled: this.#stalled,
      named: this.#named,
      neighbour: [...this.#neighbourNamed],
      unrecovered: this.#unrecovered,
      drainsMs: this.#drainsMs,
      closesMs: this.#closesMs,
      connections: { calm: this.#calmConnections, peak: this.#peakConnections },
      leftOpen: await leftOpen(this.#links, this.#plan, HEALTHY_MS),
    }
  }

  async close(): Promise<void> {
    await Promise.all(Object.values(this.#links).map((link) => link.stop()))
    const queues = Object.values(this.#parts).map(({ queue }) => queue)
    await Promise.all(queues.map((queue) => queue.close()))
  }

  get #link() {
    return this.#links[this.#plan.dependency]
  }

  get #isNamed(): boolean {
    return this.#named.has(NAMES[this.#plan.dependency])
  }

  /** Sends all that comes during the hang. Answers what must pass meanwhile. */
  async #load(): Promise<readonly SentEvent[]> {
    const { flaky, fatal, load } = this.#plan
    await this.#send(['subject'], 'fatal', fatal)
    await this.#send(['subject'], 'flaky', flaky)
    const healthy: SentEvent[] = []
    for (let left = load; left > 0; left -= 5) {
      const sent = await this.#send(['subject', 'neighbour'], 'good', Math.min(5, left))
      healthy.push(
        ...sent.filter(({ side }) => side === 'neighbour' || isSubjectHealthy(this.#plan)),
      )
      await new Promise((resolve) => setTimeout(resolve, TICK_MS))
    }
    return healthy
  }

  #watch(): NodeJS.Timeout {
    const look = (): void => {
      for (const { dependency, reason } of this.#subject.health()?.outages ?? []) {
        if (!this.#named.has(dependency)) this.#named.set(dependency, reason)
      }
      for (const { dependency } of this.#neighbour.health()?.outages ?? []) {
        this.#neighbourNamed.add(dependency)
      }
      const { connections, port } = this.#link
      this.#peakConnections = Math.max(this.#peakConnections, openSockets(port) ?? connections)
    }
    return setInterval(look, TICK_MS)
  }

  /** What the consumers still complain about. */
  #unwell(): readonly string[] {
    const sides = { subject: this.#subject, neighbour: this.#neighbour }
    return Object.entries(sides).flatMap(([name, side]) => {
      const health = side.health()
      if (health === undefined) return []
      const { state, reason = '', outages = [] } = health
      if (state === 'running' && outages.length === 0) return []
      return [`the ${name} is ${state} ${reason} ${JSON.stringify(outages)}`]
    })
  }

  async #shutDown(side: Side): Promise<void> {
    const startedAt = performance.now()
    await side.drain()
    const drainedAt = performance.now()
    await side.closeGuard()
    this.#drainsMs.push(drainedAt - startedAt)
    this.#closesMs.push(performance.now() - drainedAt)
  }

  async #send(
    sides: readonly SentEvent['side'][],
    kind: SentEvent['kind'],
    count: number,
  ): Promise<readonly SentEvent[]> {
    const sent: SentEvent[] = []
    for (const side of sides) {
      const from = this.#sent.length
      const events = Array.from({ length: count }, (_, index): SentEvent => {
        return { id: `${side}-${kind}-${from + index}`, side, kind }
      })
      const orders = events.map(({ id }): Order => ({ id, deed: DEEDS[kind] }))
      await this.#queue(side).send(orders)
      this.#sent.push(...events)
      sent.push(...events)
    }
    return sent
  }

  #queue(side: SentEvent['side']): QueueUnderTest {
    return this.#parts[side].queue
  }

  /** Answers the events that have no effect when the time is over. */
  async #haveEffects(events: readonly SentEvent[], deadlineMs: number): Promise<readonly string[]> {
    const missing = (): Promise<readonly string[]> => this.#missing(events)
    await until(async () => (await missing()).length === 0, {
      deadlineMs,
      everyMs: 2 * TICK_MS,
    }).catch(() => undefined)
    return missing()
  }

  async #missing(events: readonly SentEvent[]): Promise<readonly string[]> {
    const effects = await this.#effects()
    if (events.some(({ kind }) => kind === 'fatal')) await this.#readLetters()
    return events
      .filter(({ id, kind }) => !(kind === 'fatal' ? this.#letters.has(id) : effects.has(id)))
      .map(({ id }) => id)
  }

  async #readLetters(): Promise<void> {
    for (const { id } of await this.#queue('subject').deadLetters()) this.#letters.add(id)
  }

  async #effects(): Promise<ReadonlyMap<string, number>> {
    const names = Object.values(this.#parts).map(({ name }) => name)
    const { rows } = await this.#ledger.pool.query<{ id: string; times: number }>(
      'select id, count(*)::int as times from effects where consumer = any($1) group by id',
      [names],
    )
    return new Map(rows.map(({ id, times }) => [id, times]))
  }
}
