// @module-tag nightly

import { createGuard, type Destination } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { migrate } from '@onceward/postgres'
import { startRelay } from '@onceward/postgres/outbox'
import { pgInbox } from '@onceward/postgres/pg'
import { database, skipped, until } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import pg from 'pg'
import { expect, test } from 'vitest'
import { BROKERS, brokersWith } from '../../brokers/index.ts'

const ORDERS = 20
const KEYS = 3

/** The same, but the relay does not hear of its first call: as if it died before it could delete the messages. */
function unheardOnce(destination: Destination): Destination & { readonly copies: () => number } {
  let copies = 0
  return {
    ...destination,
    copies: () => copies,
    publish: async (messages, signal) => {
      const answers = await destination.publish(messages, signal)
      if (copies > 0) return answers
      copies = messages.length
      throw new Error('the relay did not hear of it')
    },
  }
}

// Red when the default keys of a guard do not find the id that the destination gives a message, or when a message is lost
// between commit and broker.
test.each(brokersWith(({ destination }) => destination !== undefined))(
  'what a handler sends over %s has its effect once, although the relay sends it twice',
  async (name) => {
    const { consumer, destination, servers } = BROKERS[name]
    if (skipped(servers.acceptance.service)) return
    const broker = await servers.acceptance.start()
    const pool = new pg.Pool({ connectionString: (await database()).url, max: 20 })
    const queue = await broker.createQueue()
    try {
      await migrate(pool)
      await pool.query(
        'create table charges (n int); create table effects (key text, n int, at bigserial)',
      )
      const orders = createGuard(
        { consumer: 'orders', inbox: pgInbox(pool), logger: silent },
        async ({ payload }, { outbox, tx }) => {
          const { n } = payload as { n: number }
          await tx.query('insert into charges values ($1)', [n])
          outbox.send({ to: 'payments', key: `key-${n % KEYS}`, payload: { n } })
        },
      )
      const payments = createGuard(
        { consumer: 'payments', inbox: pgInbox(pool), logger: silent },
        async ({ payload }, { tx }) => {
          const { n } = payload as { n: number }
          await tx.query('insert into effects (key, n) values ($1, $2)', [`key-${n % KEYS}`, n])
        },
      )
      const open = await destination?.()
      if (open === undefined) throw new Error('expected a destination')
      const unheard = unheardOnce(await open(queue.source as never))
      const { consume } = await consumer()
      const consumption = await consume(queue.source, payments, { onReceive: () => undefined })
      for (let n = 0; n < ORDERS; n += 1) {
        const headers = { 'idempotency-key': `order-${n}` }
        expect(await orders.process(toDelivery({ n }, { headers }))).toMatchObject({ kind: 'ack' })
      }
      const relay = await startRelay({ pool, destinations: { payments: unheard }, logger: silent })
      const count = async (of: string): Promise<number> =>
        (await pool.query(`select count(*)::int as n from ${of}`)).rows[0].n
      await until(async () => (await count('onceward.outbox_messages')) === 0)
      await until(async () => (await count('effects')) === ORDERS && (await queue.depth()) === 0)
      expect(unheard.copies()).toBeGreaterThan(0)
      const { rows } = await pool.query('select key, n from effects order by at')
      expect(rows.map(({ n }) => n).toSorted((a, b) => a - b)).toEqual(
        Array.from({ length: ORDERS }, (_, n) => n),
      )
      expect(await count('charges')).toBe(ORDERS)
      await Promise.all([relay.drain(), consumption.drain()])
      await Promise.all([orders.close(), payments.close()])
    } finally {
      await queue.close()
      await broker.server.stop()
      await pool.end()
    }
  },
  120_000,
)
