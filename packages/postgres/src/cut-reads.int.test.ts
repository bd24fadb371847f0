import { randomUUID } from 'node:crypto'
import { createGuard, type Delivery } from '@onceward/core'
import { portOf } from '@onceward/core/adapter'
import { toDelivery } from '@onceward/core/memory'
import { database, proxy, type TcpProxy, until } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { migrate } from './operators/migrate.ts'
import { pgInbox } from './pg.ts'

let direct: pg.Pool
let pool: pg.Pool
let link: TcpProxy

beforeAll(async () => {
  const { url } = await database()
  direct = new pg.Pool({ connectionString: url, max: 2 })
  await migrate(direct)
  await direct.query('create table moves (account text, n int, at bigserial)')
  const { hostname, port } = new URL(url)
  link = await proxy({ host: hostname, port: Number(port) })
  const through = new URL(url)
  through.host = `${link.host}:${link.port}`
  pool = new pg.Pool({ connectionString: through.href, max: 4 })
  pool.on('error', () => undefined)
})
afterAll(async () => {
  await Promise.all([pool.end(), direct.end()])
  await link.stop()
})

// Red when a message that was not read holds nothing: 2 and 4 were processed before 1.
test.each(['each', 'batch'] as const)(
  'a connection that is cut while a message is counted changes no order, transaction %s',
  async (transaction) => {
    const account = randomUUID()
    const guard = createGuard<
      pg.PoolClient,
      unknown,
      { readonly lane: string; readonly n: number }
    >(
      {
        ...{ consumer: `cut-${transaction}`, inbox: pgInbox(pool), transaction, logger: silent },
        orderingKey: ({ payload }) => payload.lane,
      },
      async ({ payload: { lane, n } }, { tx }) => {
        await tx.query('insert into moves values ($1, $2)', [lane, n])
      },
    )
    await portOf(guard).open()
    // The broker has another key for each: the records of a partition, with an account inside.
    let left: readonly Delivery[] = [1, 2, 3, 4].map((n) =>
      toDelivery({ lane: account, n }, { orderingKey: String(n), redelivered: n === 1 || n === 3 }),
    )
    let round = 0
    link.onData = (direction, chunk) =>
      round === 0 && direction === 'up' && chunk.includes('suspect_messages') ? 'cut' : 'pass'
    // As an adapter does it: what is deferred comes again when it is due, in its order.
    for (; round < 50 && left.length > 0; round += 1) {
      const settlements = await guard.processBatch(left)
      if (round === 0) expect(settlements[0]).toMatchObject({ cause: 'store-error' })
      const dueAt = settlements.map((each) => (each.kind === 'defer' ? each.until : 0))
      await until(() => Date.now() >= Math.max(...dueAt))
      left = left
        .filter((_, index) => settlements[index]?.kind !== 'ack')
        .map((delivery) => ({ ...delivery, redelivered: true }))
    }
    link.onData = undefined
    await guard.close()
    const { rows } = await direct.query('select n from moves where account = $1 order by at', [
      account,
    ])
    expect(rows).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }, { n: 4 }])
  },
)
