import { migrate } from '@onceward/postgres'
import { type PostgresServer, until } from '@onceward/testing'
import { Pool } from 'pg'
import type { BrokerName } from '../brokers/index.ts'
import { Crew } from './crew.ts'
import { audit, countCharged, createOrders, type Ledger } from './database.ts'
import type { DemoQueue, DemoServer } from './demo-broker.ts'
import type { HurtRedis } from './hurt-redis.ts'
import { Accounting, type Announced } from './outbox/accounting.ts'
import type { PlannedBlow } from './plan.ts'
import { bar, type Progress } from './progress.ts'

/** What both runs share: only the guard differs. */
export interface Scenario {
  readonly database: PostgresServer
  readonly broker: BrokerName
  readonly server: DemoServer
  /** With `--redis`: holds the leases of the guard, and is killed during the run. */
  readonly redis?: HurtRedis | undefined
  /** Payments are announced: by hand without the guard, through its outbox with it. */
  readonly outbox: boolean
  readonly events: number
  readonly announcements: readonly number[]
  readonly plan: readonly PlannedBlow[]
  readonly progress: Progress
  readonly signal: AbortSignal
  /** With `--console`: called with the database of the guarded run, once it has its tables. */
  readonly migrated?: ((databaseUrl: string) => Promise<void>) | undefined
}

export interface PhaseResult extends Ledger {
  readonly deliveries: number
  readonly kills: number
  /** With `--outbox`. */
  readonly announced?: Announced | undefined
}

const MOMENTS: Readonly<Record<PlannedBlow['moment'], string>> = {
  'in-transaction': 'inside a transaction',
  'before-announcement': 'after its commit, before its announcement',
  'before-ack': 'after its commit, before its acknowledgement',
}

/** One run: orders are sent, three workers charge them, some workers are killed, and the tables are audited. */
export async function runPhase(
  scenario: Scenario,
  guard: 'with' | 'without',
): Promise<PhaseResult> {
  const { database, broker, server, events, progress } = scenario
  const databaseUrl = await database.createDatabase()
  const pool = new Pool({ connectionString: databaseUrl, max: 2 })
  // pool.end() does not wait until its connections are closed, so that the server may end them first.
  pool.on('error', () => undefined)
  try {
    await createOrders(pool, events)
    if (guard === 'with') {
      await migrate(pool)
      await scenario.migrated?.(databaseUrl)
    }
    await using queue = await server.openQueue(`orders-${guard}-guard-${process.pid}`)
    const redis = guard === 'with' ? scenario.redis : undefined
    await using accounting = scenario.outbox ? await Accounting.open(pool, guard) : undefined
    const what = scenario.outbox ? 'outbox' : 'guard'
    progress.line(`\n${guard} the ${what}${redis === undefined ? '' : ', leases in Redis'}`)
    await using crew = new Crew({
      file: `${guard}-${what}.ts`,
      settings: {
        ...{ databaseUrl, broker, address: queue.address, redisUrl: redis?.url },
        accounting: accounting?.address,
      },
      plan: scenario.plan,
      pauseMs: server.pauseMs,
      onBlow: (worker, blow) => progress.line(`  worker ${worker} ${told(blow, server)}`),
    })
    await work(scenario, { pool, queue, crew, redis, accounting })
    const ledger = await audit(pool, sentTwice(scenario.announcements))
    progress.line(`  ${ledger.effects} charges for ${ledger.events} orders`)
    const announced = await accounting?.audit()
    return { ...ledger, deliveries: crew.deliveries, kills: crew.kills, announced }
  } finally {
    await pool.end()
  }
}

function told({ kind, moment }: PlannedBlow, { pauseMs = 0 }: DemoServer): string {
  if (kind === 'kill') return `killed by SIGKILL ${MOMENTS[moment]}`
  return `stopped by SIGSTOP for ${pauseMs / 1_000} s ${MOMENTS[moment]}, longer than its session`
}

interface Phase {
  readonly pool: Pool
  readonly queue: DemoQueue
  readonly crew: Crew
  readonly redis: HurtRedis | undefined
  readonly accounting: Accounting | undefined
}

/** Messages on their way, in the broker or in the outbox. */
const waiting = async ({ accounting, queue }: Phase): Promise<number> =>
  (await queue.waiting()) + ((await accounting?.waiting()) ?? 0)

/** Sends the orders, and resolves when the workers have ended and nothing waits. */
async function work(scenario: Scenario, testbed: Phase): Promise<void> {
  const { queue, crew } = testbed
  const announcing = announce(scenario, queue)
  let announced = false
  announcing.then(
    () => {
      announced = true
    },
    (error) => crew.fail(error),
  )
  while (true) {
    await emptied(scenario, testbed, () => announced)
    await crew.stop()
    // Messages that a worker gave back are visible only now.
    if ((await waiting(testbed)) === 0) return
    crew.start()
  }
}

async function emptied(
  scenario: Scenario,
  testbed: Phase,
  announced: () => boolean,
): Promise<void> {
  const { events, plan, progress, signal, server } = scenario
  const { pool, crew, redis } = testbed
  const kills = plan.filter(({ kind }) => kind === 'kill').length
  const isOver = async (): Promise<boolean> => {
    if (signal.aborted || crew.failure !== undefined) return true
    const charged = await countCharged(pool)
    await redis?.suffer(charged / events)
    const counts = `${crew.deliveries} deliveries · ${crew.kills}/${kills} kills`
    progress.move(`  ${bar(charged, events)} ${charged}/${events} charged · ${counts}`)
    const silentMs = performance.now() - crew.heardAt
    return announced() && silentMs >= (server.silenceMs ?? 0) && (await waiting(testbed)) === 0
  }
  const deadlineMs = 60_000 + events * 20
  await until(isOver, { what: 'the queue to be empty', deadlineMs, everyMs: 100 })
  progress.move()
  signal.throwIfAborted()
  if (crew.failure !== undefined) throw crew.failure
}

/** Sends the orders at some 60 a second, or faster so that all are sent within six seconds. */
async function announce({ announcements, signal }: Scenario, queue: DemoQueue): Promise<void> {
  const pauseMs = Math.min(10 / 60, 60 / announcements.length) * 1_000
  for (let from = 0; from < announcements.length && !signal.aborted; from += 10) {
    await queue.send(announcements.slice(from, from + 10))
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}

function sentTwice(orders: readonly number[]): number[] {
  return orders.filter((orderId, index) => orders.indexOf(orderId) < index)
}
