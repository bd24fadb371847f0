import assert from 'node:assert/strict'
import { createGuard } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { type RedisLike, redisLeases } from '@onceward/redis'
import pg from 'pg'
import { env } from './env.ts'
import { retry, until } from './support.ts'

/** A guard with leases alone and a guard with an inbox too, on one client of Redis. */
export async function proveLeases(redis: RedisLike): Promise<void> {
  const pool = new pg.Pool({ connectionString: env('DATABASE_URL'), max: 12 })
  await migrate(pool)
  const namespace = `versions-${process.pid}`
  for (const inbox of [undefined, pgInbox(pool)]) {
    const leases = redisLeases(redis, { namespace })
    let runs = 0
    const handler = async (): Promise<void> => {
      runs += 1
      if (runs === 1) throw new Error('the first attempt fails')
    }
    const common = { consumer: `c${inbox === undefined}`, leases, retry, eventKey: () => 'a' }
    const guard =
      inbox === undefined
        ? createGuard({ ...common, onTakeover: 'retry' }, handler)
        : createGuard({ ...common, inbox }, handler)
    const end = async (): Promise<string> => {
      const settlement = await guard.process(toDelivery({}))
      return settlement.kind === 'ack' ? settlement.by : settlement.kind
    }
    assert.equal(await end(), 'defer')
    await until(async () => (await end()) === 'processed')
    assert.equal(await end(), 'duplicate')
    assert.equal(runs, 2)
    await guard.close()
  }
  await pool.end()
}
