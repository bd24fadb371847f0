import { systemRuntime } from '@onceward/core'
import { surviveConnecting, surviveLoss } from './clients/pg-events.ts'
import { repeated } from './driver/repeat.ts'
import { DURABLE_IF_OFF, shortSettings } from './driver/session-settings.ts'
import { diagnose, isForbidden, toStoreError } from './errors.ts'

/** The part of pg's `Pool` that {@link migrate} and {@link deadLetters} call. */
export interface PoolLike {
  connect(): Promise<PoolClientLike>
}

/** The part of pg's `PoolClient` that {@link migrate} and {@link deadLetters} call. */
export interface PoolClientLike {
  query(text: string, values?: readonly unknown[]): Promise<ClientAnswer>
  release(error?: Error | boolean): void
}

export interface ClientAnswer {
  readonly rows: readonly Readonly<Record<string, unknown>>[]
  readonly rowCount: number | null
}

/** A statement of an operator that takes longer is cancelled: a page of large dead letters takes seconds. */
const STATEMENT_MS = 60_000
const BEGIN = [
  'begin isolation level read committed read write',
  ...shortSettings(STATEMENT_MS),
  DURABLE_IF_OFF,
].join('; ')

/**
 * BEGIN, `work`, COMMIT on one connection, durable and in READ COMMITTED, under settings of its own, whatever the defaults
 * of the role and the database are. `work` runs again when the transaction lost against a concurrent one.
 *
 * @throws {@link StoreUnavailableError} when the server cannot be reached, or ended the connection.
 */
export function inTransaction<Result>(
  pool: PoolLike,
  work: (client: PoolClientLike) => Promise<Result>,
): Promise<Result> {
  surviveConnecting(pool)
  return repeated(systemRuntime, () => onceInTransaction(pool, work))
}

async function onceInTransaction<Result>(
  pool: PoolLike,
  work: (client: PoolClientLike) => Promise<Result>,
): Promise<Result> {
  const client = await connect(pool)
  const undo = surviveLoss(client)
  let isBroken = false
  try {
    await client.query(BEGIN)
    const result = await work(client)
    await client.query('commit')
    return result
  } catch (error) {
    isBroken = await client.query('rollback').then(
      () => isForbidden(error),
      () => true,
    )
    throw diagnose(error) === 'other' ? error : toStoreError(error, 'running a transaction')
  } finally {
    undo()
    client.release(isBroken)
  }
}

async function connect(pool: PoolLike): Promise<PoolClientLike> {
  try {
    return await pool.connect()
  } catch (error) {
    throw toStoreError(error, 'connecting')
  }
}
