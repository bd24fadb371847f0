import { setTimeout as pause } from 'node:timers/promises'
import { Pool } from 'pg'
import { BROKERS } from '../brokers/index.ts'
import { ACK_LATENCY_MS } from './network.ts'
import { chargeOrder, type OrderPlaced } from './order.ts'
import { settings } from './settings.ts'
import { tell } from './signals.ts'

const { accounting, address, broker, databaseUrl } = settings()
const pool = new Pool({ connectionString: databaseUrl })

/** Over a network as slow as that to the broker. */
async function announce(order: OrderPlaced): Promise<void> {
  await pause(ACK_LATENCY_MS)
  const headers = { 'content-type': 'application/json' }
  const body = JSON.stringify(order)
  const { ok } = await fetch(accounting?.url ?? '', { method: 'POST', headers, body })
  if (!ok) throw new Error('the accounting did not take it')
}

/**
 * The handler in a hand-written transaction that knows its copies. Odd orders are announced after the commit, even ones
 * before it: both are found in real services.
 */
async function charge(order: OrderPlaced): Promise<void> {
  const isAnnouncedFirst = order.orderId % 2 === 0
  const tx = await pool.connect()
  try {
    await tx.query('begin')
    const fresh = await tx.query(
      'insert into handled values ($1) on conflict do nothing returning 1',
      [order.orderId],
    )
    if (fresh.rowCount === 0) {
      await tx.query('rollback')
      return
    }
    if (isAnnouncedFirst) await announce(order)
    await chargeOrder(tx, order)
    await tx.query('commit')
  } catch (error) {
    await tx.query('rollback')
    throw error
  } finally {
    tx.release()
  }
  if (isAnnouncedFirst) return
  tell({ kind: 'before-announcement' })
  await announce(order)
}

const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())
const { unguarded } = await BROKERS[broker].demo()
await unguarded({ address, charge, signal: stop.signal })

await pool.end()
process.disconnect()
