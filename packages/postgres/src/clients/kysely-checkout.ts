import { StoreUnavailableError } from '@onceward/core'
import { answerWithin, endsWithin, LATE } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { ConnectionProvider, DatabaseConnection, Kysely, Transaction } from 'kysely'
import type { Connection as Wire } from 'pg'
import { MOST_CONNECTIONS } from '../driver/repeat.ts'
import { toStoreError } from '../errors.ts'
import { rawQuery } from './kysely-raw.ts'
import { surviveLoss, wireOf } from './kysely-wire.ts'
import { wireSession } from './pg-wire.ts'

/** Longest wait for a connection, ms. A longer wait means that the user's code holds all connections. */
const CONNECT_MS = 5_000
/** The same for a client with one connection: callers queue for it behind whole handlers. */
const SINGLE_CONNECT_MS = 60_000

/** A Kysely, and what the client library below it can do. */
export interface Client<DB> {
  readonly db: Kysely<DB>
  readonly runtime: Runtime
  /** Whether a text may contain several statements. Undefined until the client has taken or refused the first one. */
  takesSeveral: boolean | undefined
  /** Makes the handle of a transaction. The classes of Kysely may be those of another library that contains it. */
  readonly toTransaction: (db: Kysely<DB>, provider: ConnectionProvider) => Transaction<DB>
  /** The Kysely is part of a library, which makes the handle of it. */
  readonly isLibrary?: boolean
  /** Cancels the statement that a process of the server runs. Left out: over another connection of Kysely. */
  readonly cancel?: (pid: number) => Promise<void>
}

/** A connection of Kysely, until it is left. */
export interface Taken {
  readonly connection: DatabaseConnection
  readonly leave: () => void
}

async function take<DB>({ db, runtime }: Client<DB>): Promise<Taken> {
  const taken = Promise.withResolvers<DatabaseConnection>()
  const left = Promise.withResolvers<void>()
  const leave = (): void => left.resolve()
  const executor = db.getExecutor()
  const isSingle = executor.adapter.supportsMultipleConnections === false
  const boundMs = isSingle ? SINGLE_CONNECT_MS : CONNECT_MS
  executor
    .provideConnection(async (connection) => {
      taken.resolve(connection)
      await left.promise
    })
    .catch((error: unknown) => taken.reject(error))
  try {
    const connection = await answerWithin(runtime, taken.promise, boundMs)
    if (connection !== LATE) return { connection, leave }
  } catch (error) {
    throw toStoreError(error, 'connecting')
  }
  leave()
  throw new StoreUnavailableError(`No connection became free within ${boundMs} ms.`)
}

/** A connection of Kysely with the connection of pg below it, if that is known. */
interface Clean extends Taken {
  readonly wire: Wire | undefined
}

/**
 * Other code may return a connection inside of a transaction to the pool below. Such a connection is closed, and another
 * one is taken.
 */
export async function takeClean<DB>(client: Client<DB>): Promise<Clean> {
  for (let closed = 0; ; closed += 1) {
    const { connection, leave } = await take(client)
    const wire = await answerWithin(client.runtime, wireOf(connection), CONNECT_MS)
    if (wire === LATE || (isUnknown(wire) && !(await asks(client, { connection, wire })))) {
      leave()
      throw new StoreUnavailableError(
        `A connection of the pool did not answer for ${CONNECT_MS} ms: await every statement on it, or check the network.`,
      )
    }
    const isLeft = wire !== undefined && wireSession(wire).isInTransaction === true
    if (!isLeft || closed >= MOST_CONNECTIONS) return { connection, leave, wire }
    surviveLoss(wire)
    endWire(wire, leave)
  }
}

/**
 * Asks the server whether a connection that onceward has not used before is inside of a transaction, because Kysely cannot
 * tell. Whether it answered.
 */
async function asks<DB>({ runtime }: Client<DB>, { connection, wire }: Asked): Promise<boolean> {
  const undo = surviveLoss(wire)
  const asking = connection.executeQuery(rawQuery(''))
  const isAnswered = await endsWithin(runtime, asking, CONNECT_MS)
  undo()
  return isAnswered
}

interface Asked {
  readonly connection: DatabaseConnection
  readonly wire: Wire
}

const isUnknown = (wire: Wire | undefined): wire is Wire =>
  wire !== undefined && wireSession(wire).isInTransaction === undefined

/** Closes a connection. Released only after pg has noticed the end: before that its pool would lend it again. */
export function endWire(wire: Wire, release: () => void): void {
  if (wireSession(wire).hasEnded) {
    release()
  } else {
    wire.prependOnceListener('end', () => setImmediate(release))
    wire.stream.destroy()
  }
}
