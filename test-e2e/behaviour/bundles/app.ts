import { createGuard, FatalError } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { migrate, postgresLeases } from '@onceward/postgres'
import { kyselyInbox } from '@onceward/postgres/kysely'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import { Redis } from 'ioredis'
import { Kysely, PostgresDialect, sql } from 'kysely'
import { Pool } from 'pg'

/** What the bundled program prints, as one line of JSON. */
export interface BundleReport {
  readonly applied: readonly string[]
  /** How two deliveries of one event were settled, for each way to compose a guard. */
  readonly settled: Readonly<Record<string, readonly string[]>>
  /** How a delivery was settled whose connection ended between two statements of its handler. */
  readonly afterLoss: string
  /** What logs call an error of onceward. */
  readonly errorName: string
}

const silent = { debug() {}, info() {}, warn() {}, error() {} }
const common = { eventKey: () => 'order-1', logger: silent }

async function twice(guard: ReturnType<typeof createGuard>): Promise<readonly string[]> {
  const first = await guard.process(toDelivery({ amount: 5 }))
  const second = await guard.process(toDelivery({ amount: 5 }))
  await guard.close()
  return [first, second].map((each) => (each.kind === 'ack' ? each.by : each.kind))
}

/** The process must outlive a backend that ends while nobody asks the connection anything. */
async function loseConnection(db: Kysely<unknown>, pool: Pool): Promise<string> {
  const guard = createGuard(
    { ...common, consumer: 'loses', inbox: kyselyInbox(db) },
    async (_event, { tx, signal }) => {
      const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(tx)
      await pool.query('select pg_terminate_backend($1)', [rows[0]?.pid])
      await new Promise((resolve) => {
        signal.addEventListener('abort', resolve)
        setTimeout(resolve, 500)
      })
      await sql`select 1`.execute(tx)
    },
  )
  const { kind } = await guard.process(toDelivery({}))
  await guard.close()
  return kind
}

async function main(): Promise<BundleReport> {
  const pool = new Pool({ connectionString: process.env['DATABASE_URL'] })
  const kyselyPool = new Pool({ connectionString: process.env['DATABASE_URL'] })
  for (const each of [pool, kyselyPool]) each.on('error', () => undefined)
  const redis = new Redis(Number(process.env['REDIS_PORT']))
  const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: kyselyPool }) })
  const { applied } = await migrate(pool)
  const leases = redisLeases(redis)
  const settled = {
    pg: await twice(
      createGuard(
        { ...common, consumer: 'pg', inbox: pgInbox(pool), leases },
        async (_, { tx }) => {
          await tx.query('select 1')
        },
      ),
    ),
    kysely: await twice(
      createGuard({ ...common, consumer: 'kysely', inbox: kyselyInbox(db) }, async (_, { tx }) => {
        await sql`select 1`.execute(tx)
      }),
    ),
    postgresLeases: await twice(
      createGuard(
        { ...common, consumer: 'leases', leases: postgresLeases(pool), onTakeover: 'retry' },
        () => undefined,
      ),
    ),
  }
  const afterLoss = await loseConnection(db, pool)
  await db.destroy()
  await pool.end()
  redis.disconnect()
  return { applied, settled, afterLoss, errorName: new FatalError('declined').name }
}

console.log(JSON.stringify(await main()))
