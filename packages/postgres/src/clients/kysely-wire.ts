import { isError } from '@onceward/core/adapter'
import type { DatabaseConnection } from 'kysely'
import type { Connection } from 'pg'
import { rawQuery } from './kysely-raw.ts'

/*
 * Kysely takes clients from pg's pool without listening for their errors, so a connection that is lost between two
 * statements of a handler ends the whole process (pg emits 'error' on the client without a listener, and Node throws;
 * seen with Kysely 0.29 and pg 8.23). Neither library exposes the client. Kysely passes the query's
 * text to `client.query()`, and pg accepts an object with `submit(connection)` instead (documented for cursors). An
 * object that answers an error sends nothing.
 */

const wires = new WeakMap<DatabaseConnection, Promise<Connection | undefined>>()

/** The connection of pg below a connection of Kysely. Undefined for another client. Sends nothing. */
export function wireOf(connection: DatabaseConnection): Promise<Connection | undefined> {
  const known = wires.get(connection)
  if (known !== undefined) return known
  const wire = findWire(connection)
  wires.set(connection, wire)
  return wire
}

// What Kysely's connection on pg has and its connections on other clients of PostgreSQL lack.
const METHODS = ['cancelQuery', 'collectSessionInfo', 'killSession'] as const

/** The name of the class is not enough: a minifier changes it. */
function isOnPg(connection: DatabaseConnection): boolean {
  if (connection.constructor.name === 'PostgresConnection') return true
  return METHODS.every((name) => typeof connection[name] === 'function')
}

async function findWire(connection: DatabaseConnection): Promise<Connection | undefined> {
  if (!isOnPg(connection)) return undefined
  const { promise, resolve } = Promise.withResolvers<Connection | undefined>()
  let found: Connection | undefined
  const rows: readonly unknown[] = []
  const probe = {
    rows,
    submit: (wire: Connection): Error => {
      found = wire
      return new Error('onceward looks for the connection and sends nothing')
    },
    callback: (): void => resolve(found),
    // In pipeline mode pg refuses the object, and names the connection.
    handleError: (_error: unknown, wire?: Connection): void => {
      if (wire?.stream?.destroyed === false) found ??= wire
      probe.callback()
    },
    toString: () => '-- onceward looks for the connection and sends nothing',
  }
  let isTaken: boolean
  try {
    const sql = probe as unknown as string
    const answer = await connection.executeQuery({ ...rawQuery(''), sql })
    // pg answers the object itself.
    isTaken = answer.rows === rows
  } catch {
    return undefined
  }
  // A client of pg that is busy calls `submit` when the statements are done that other code has not awaited. Another
  // client never does.
  return found !== undefined || isTaken ? promise : undefined
}

const LOSSES: ReadonlySet<unknown> = new Set(['error', 'errorMessage', 'end'])

/** How many users of a connection listen for its loss. */
const listening = new WeakMap<Connection, { count: number }>()

/**
 * From now on a lost connection does not end the process. The answer undoes this for as long as somebody else uses the
 * connection. Until then its loss never ends the process: the pool has removed it already and opens a new one.
 */
export function surviveLoss(wire: Connection): () => void {
  const users = listening.get(wire) ?? listen(wire)
  users.count += 1
  return () => {
    users.count -= 1
  }
}

function listen(wire: Connection): { count: number } {
  const users = { count: 0 }
  listening.set(wire, users)
  const emit = wire.emit
  wire.emit = (name: string | symbol, ...args: unknown[]): boolean => {
    try {
      return Reflect.apply(emit, wire, [name, ...args])
    } catch (error) {
      if (LOSSES.has(name) && (users.count > 0 || isOfIdle(error))) return true
      throw error
    }
  }
  return users
}

/** The pool of pg puts an idle client into the error of its loss, which Node throws if the pool has no listener. */
const isOfIdle = (error: unknown): boolean => isError(error) && 'client' in error
