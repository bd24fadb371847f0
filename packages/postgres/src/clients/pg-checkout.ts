import { ConfigurationError, StoreUnavailableError } from '@onceward/core'
import { answerWithin, LATE } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { Pool, PoolClient } from 'pg'
import { surviveLoss, survivePoolLosses } from './pg-events.ts'
import { wireSession } from './pg-wire.ts'

/** Longest wait for a connection of the pool, ms. A longer wait means that the user's code holds all connections. */
const CONNECT_MS = 5_000
/** Takes a connection from the pool. Rejects with the pool's own error, or with a typed one. */
export function connect(pool: Pool, runtime: Runtime): Promise<PoolClient> {
  survivePoolLosses(pool)
  // An idle connection comes in this turn of the event loop, so no timer is needed. This runs for every event. A `connect`
  // that a user has put in its place may take longer: some ask the server whether it still answers.
  const isAtOnce = pool.idleCount > pool.waitingCount && hasItsOwnConnect(pool)
  return isAtOnce ? connectAtOnce(pool) : connectInTime(pool, runtime)
}

/** By a callback: without one the pool makes two promises. */
function connectAtOnce(pool: Pool): Promise<PoolClient> {
  return new Promise((resolve, reject) => {
    pool.connect((error, client) => (error ? reject(error) : resolve(client as PoolClient)))
  })
}

const classes = new WeakMap<Pool, Partial<Pool> | null>()

/** Whether `connect` is that of pg's pool. The class is found by a method, because users of PGlite have no pg to import. */
function hasItsOwnConnect(pool: Pool): boolean {
  let found = classes.get(pool)
  if (found === undefined) {
    found = pool
    do found = Object.getPrototypeOf(found) as Partial<Pool> | null
    while (found !== null && !Object.hasOwn(found, '_pulseQueue'))
    classes.set(pool, found)
  }
  return pool.connect === found?.connect
}

const HOOKS = ['acquire', 'release'] as const

/** Whether the pool lends a connection without code of its user, which may prepare each use. */
export function isLentAsItIs(pool: Pool): boolean {
  return hasItsOwnConnect(pool) && HOOKS.every((hook) => pool.listenerCount?.(hook) === 0)
}

async function connectInTime(pool: Pool, runtime: Runtime): Promise<PoolClient> {
  const client = await lentWithin(pool.connect(), runtime, CONNECT_MS)
  if (client !== LATE) return client
  throw new StoreUnavailableError(
    `No connection of the pool (${pool.totalCount} of ${pool.options.max} in use, ${pool.waitingCount} waiting) became free within ${CONNECT_MS} ms.`,
  )
}

/** A connection that comes too late goes back at once. */
export async function lentWithin<Client extends { release(): void }>(
  connecting: Promise<Client>,
  runtime: Runtime,
  ms: number,
): Promise<Client | typeof LATE> {
  const client = await answerWithin(runtime, connecting, ms)
  if (client === LATE) {
    connecting.then((late) => late.release()).catch(() => undefined)
  }
  return client
}

/**
 * Other code may return a connection inside of a transaction, and the pool lends it again. What onceward stores there
 * would be lost with a rollback, and a COMMIT of onceward would commit half of the other code's work.
 *
 * Undefined for a connection that onceward has not used before, with a version of pg that cannot tell (below 8.23).
 */
export function isInTransaction(client: object | undefined): boolean | undefined {
  const { connection, getTransactionStatus } = (client ?? {}) as Partial<PoolClient>
  const status = getTransactionStatus?.call(client)
  if (status !== undefined && status !== null) return status !== 'I'
  return connection === undefined ? false : wireSession(connection).isInTransaction
}

/** After an empty statement, `wireSession` knows whether its connection is inside of a transaction. */
export const askStatus = (client: { query(text: string): Promise<unknown> }): Promise<unknown> =>
  client.query('').catch(() => undefined)

/** The native client of pg has none. A `connect` that a user has put in place of the pool's may answer nothing. */
export const hasConnection = (client: Partial<PoolClient> | undefined): boolean =>
  client?.connection !== undefined

export function refuseClient(client: PoolClient | undefined): never {
  client?.release()
  throw new ConfigurationError(
    'Expected a pool of the JavaScript client of pg 8 (`new pg.Pool()`, not `pg.native`).',
  )
}

/** Resolves when the client has no statement in flight, or its connection has ended. */
export function idle(client: PoolClient): Promise<void> {
  if (!isBusy(client)) return Promise.resolve()
  return new Promise((resolve) => {
    const done = (): void => {
      client.removeListener('drain', done)
      client.removeListener('end', done)
      resolve()
    }
    client.on('drain', done)
    client.on('end', done)
  })
}

export const isBusy = (client: PoolClient): boolean => Reflect.get(client, 'readyForQuery') !== true

/**
 * A client that came inside of a transaction, if statements that were not awaited have ended that transaction meanwhile,
 * or of which nothing was known, if it is in none. Undefined otherwise: then the client is closed.
 *
 * @param closed - How many clients were closed before this one.
 * @throws {@link StoreUnavailableError} once every client is a new one, so that a hook of the pool must have begun it.
 */
export async function cleanOrClosed(
  { pool, runtime }: { readonly pool: Pool; readonly runtime: Runtime },
  client: PoolClient,
  closed: number,
): Promise<PoolClient | undefined> {
  const undo = surviveLoss(client)
  const isUnknown = isInTransaction(client) === undefined
  await answerWithin(runtime, isUnknown ? askStatus(client) : idle(client), CONNECT_MS)
  undo()
  if (!isBusy(client) && isInTransaction(client) === false) return client
  client.release(true)
  if (closed < pool.options.max) return undefined
  throw new StoreUnavailableError(
    'New connections of the pool are inside of a transaction: end it in the hook that begins it.',
  )
}
