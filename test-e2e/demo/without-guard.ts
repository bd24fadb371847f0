import { Pool } from 'pg'
import { BROKERS } from '../brokers/index.ts'
import { chargeOrder, type OrderPlaced } from './order.ts'
import { settings } from './settings.ts'

const { databaseUrl, broker, address } = settings()
const pool = new Pool({ connectionString: databaseUrl })

/** The handler in a hand-written transaction. */
async function charge(order: OrderPlaced): Promise<void> {
  const tx = await pool.connect()
  try {
    await tx.query('begin')
    await chargeOrder(tx, order)
    await tx.query('commit')
  } catch (error) {
    await tx.query('rollback')
    throw error
  } finally {
    tx.release()
  }
}

const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())
const { unguarded } = await BROKERS[broker].demo()
await unguarded({ address, charge, signal: stop.signal })

await pool.end()
process.disconnect()
