import { Pool } from 'pg'
import { type Order, write, writeAll } from './effects.ts'

/*
 * The statements that a guard sends, by a client that does nothing else: no identity, no deadline, no verdicts. A guard
 * cannot cost less.
 */

/** Sessions with the time limits that a guard sets once. */
export async function openStatements(connectionString: string, max: number): Promise<Pool> {
  const limits = '-c lock_timeout=2000 -c statement_timeout=60000'
  const options = `${limits} -c idle_in_transaction_session_timeout=60000`
  const pool = new Pool({ connectionString, max, options, idleTimeoutMillis: 0 })
  pool.on('error', () => undefined)
  for (const table of ['claimed', 'claimed_in_bulk']) {
    await pool.query(`create table ${table} (like onceward.processed_events including all)`)
  }
  return pool
}

/** One event in one transaction. */
export function claimAndWrite(pool: Pool, order: Order): Promise<void> {
  return claimed(pool, insertOf('claimed', [order]), (tx) => write(tx, order))
}

/** Events one after the other on one connection: the text that commits one begins the next. */
export async function claimAndWriteChained(pool: Pool, orders: readonly Order[]): Promise<void> {
  const tx = await pool.connect()
  try {
    let before = ''
    for (const order of orders) {
      // As behind the COMMIT of another event, where a claim waits for less.
      const limit = before === '' ? '' : 'set local lock_timeout = 25; '
      const claim = insertOf('claimed', [order])
      await tx.query(`${before}${BEGIN}; ${limit}${claim}; ${BEHIND}`)
      await write(tx, order)
      before = `${COMMIT}; `
    }
    if (before !== '') await tx.query(COMMIT)
  } finally {
    tx.release()
  }
}

/** Events that share a transaction, and a statement for their effects. */
export function claimAndWriteAll(pool: Pool, orders: readonly Order[]): Promise<void> {
  const taken = `with taken as (${insertOf('claimed_in_bulk', orders)} returning event_id, xmin)`
  const ids = `pg_catalog.string_agg(event_id::pg_catalog.text, ',') as ids`
  const xid = '(pg_catalog.array_agg(xmin))[1]::pg_catalog.text as xid'
  return claimed(pool, `${taken} select ${ids}, ${xid} from taken`, (tx) => writeAll(tx, orders))
}

const BEGIN = 'begin isolation level read committed read write'
const BEHIND = "set local lock_timeout = '0'"
const COMMIT = 'set local synchronous_commit = on; commit'
const FINGERPRINT = '-7767028773118343679'

function insertOf(table: string, orders: readonly Order[]): string {
  return `insert into ${table} (event_id, fingerprint, consumer_id) ${rowsOf(orders)} on conflict (event_id) do nothing`
}

function rowsOf(orders: readonly Order[]): string {
  if (orders.length === 1) {
    return `values ${orders.map(({ orderId }) => `('${orderId}',${FINGERPRINT},1)`).join()}`
  }
  const ids = orders.map(({ orderId }) => orderId).toSorted()
  const fingerprints = ids.map(() => FINGERPRINT)
  return `select id, fingerprint, 1 from rows from (pg_catalog.unnest('{${ids.join()}}'::pg_catalog.uuid[]), pg_catalog.unnest('{${fingerprints.join()}}'::pg_catalog.int8[])) fresh(id, fingerprint)`
}

async function claimed(
  pool: Pool,
  claim: string,
  work: (tx: Parameters<typeof write>[0]) => Promise<void>,
): Promise<void> {
  const tx = await pool.connect()
  try {
    await tx.query(`${BEGIN}; ${claim}; ${BEHIND}`)
    await work(tx)
    await tx.query(COMMIT)
  } finally {
    tx.release()
  }
}
