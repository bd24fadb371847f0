import {
  ConfigurationError,
  OncewardError,
  RetryableError,
  StoreUnavailableError,
} from '@onceward/core'
import { messageOf } from '@onceward/core/adapter'
import { FORBIDDEN, LOCK_NOT_AVAILABLE, QUERY_CANCELED, UNIQUE_VIOLATION } from './sqlstates.ts'

/*
 * What errors of PostgreSQL and of its clients mean. Codes:
 * https://www.postgresql.org/docs/current/errcodes-appendix.html
 */

/** The transaction lost against a concurrent one. The same work may succeed on a retry. */
const SERIALIZATION = new Set([
  '40001', // serialization_failure
  '40P01', // deadlock_detected
])

/** read_only_sql_transaction: connected to a standby. */
const READ_ONLY = '25006'

/** The server cannot serve any client now. The error says nothing about the statement. */
const STORE = new Set([
  READ_ONLY,
  '25P03', // idle_in_transaction_session_timeout: the connection is gone
  '25P04', // transaction_timeout: the connection is gone
  '3D000', // invalid_catalog_name: the database is not there
  '57P01', // admin_shutdown
  '57P02', // crash_shutdown
  '57P03', // cannot_connect_now
  '57P04', // database_dropped
  '57P05', // idle_session_timeout
])

const STORE_CLASSES = new Set([
  '08', // connection exception
  '28', // invalid authorization: expired or rotated credentials
  '53', // insufficient resources: disk full, out of memory, too many connections
  '58', // system error: I/O
])

/** A limit of the statement, such as `temp_file_limit`. A retry would reach it again, so it is a failure of the event. */
const OWN_LIMIT = '53400'

/** A table, schema or column is missing. */
const MISSING = new Set<string | undefined>(['3F000', '42P01', '42703', '42883'])
/** Of "cannot set transaction read-write mode during recovery": onceward names the mode, because users change the default. */
const UNSUPPORTED = '0A000'
/** `invalid_column_reference`: ON CONFLICT names a column that no unique index is on. */
const NO_PRIMARY_KEY = '42P10'
/** The function of PostgreSQL that refuses to change a published table whose rows replicas could not find. */
const NO_REPLICA_IDENTITY = 'CheckCmdReplicaIdentity'
/** PgBouncer's own words, in no other language, with the SQLSTATE of a broken protocol. */
const STATEMENT_MODE = /statement pooling mode/

/** https://nodejs.org/api/errors.html#common-system-errors, and the same errors of postgres.js. */
const CONNECTION_CODES = new Set<unknown>([
  ...['ECONNREFUSED', 'ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND', 'EAI_AGAIN'],
  ...['EHOSTUNREACH', 'EHOSTDOWN', 'ENETUNREACH', 'ENETDOWN', 'EADDRNOTAVAIL', 'EMFILE', 'ENFILE'],
  ...[
    'ERR_STREAM_DESTROYED',
    'ERR_STREAM_WRITE_AFTER_END',
    'ERR_SOCKET_CLOSED',
    'ERR_STREAM_PREMATURE_CLOSE',
  ],
  ...['CONNECTION_CLOSED', 'CONNECTION_ENDED', 'CONNECTION_DESTROYED', 'CONNECT_TIMEOUT'],
  // Of Prisma: cannot reach the server, no answer, no free connection, connection closed.
  ...['P1001', 'P1002', 'P2024', 'P1017'],
])

/** Errors without a code from pg, pg-pool and Kysely. */
const CONNECTION_MESSAGES =
  /^(?:Connection terminated|timeout expired|timeout exceeded when trying to connect|Cannot use a pool after calling end|Client was closed|Client has encountered a connection error|Query read timeout|The server does not support SSL|driver has already been destroyed|Postgres connection has been discarded|PGlite instance is already closed)/

/** Prisma's own codes have the same form: P1001 … P6999. Those of PostgreSQL with a P begin with P0. */
const SQLSTATE = /^(?!P[1-9])[0-9A-Z]{5}$/
/** Of Prisma before version 7, which tells no SQLSTATE with it: a write conflict or a deadlock. */
const PRISMA_CONFLICT = 'P2034'
/** Causes that are nested deeper than this are ignored. */
const DEPTH = 5
/** More errors than these are ignored: an AggregateError may hold any number, and also itself. */
const MOST_ERRORS = 100

/** What an error of a statement means. Wrapped errors are found through their causes. */
export function diagnose(error: unknown): 'serialization' | 'store' | 'other' {
  const state = sqlState(error)
  if (state !== undefined) return meaningOf(state)
  if (chain(error).some(({ code }) => code === PRISMA_CONFLICT)) return 'serialization'
  return isConnectionLoss(error) ? 'store' : 'other'
}

function meaningOf(state: string): 'serialization' | 'store' | 'other' {
  if (SERIALIZATION.has(state)) return 'serialization'
  if (state === OWN_LIMIT) return 'other'
  return STORE.has(state) || STORE_CLASSES.has(state.slice(0, 2)) ? 'store' : 'other'
}

/** SQLSTATE of the server's error, from any driver and through up to five wrappers. */
export function sqlState(error: unknown): string | undefined {
  for (const each of chain(error)) {
    const { code } = each
    // "EPIPE" has the form of a SQLSTATE; no class of those begins with E.
    if (typeof code === 'string' && SQLSTATE.test(code) && !CONNECTION_CODES.has(code)) return code
  }
  return undefined
}

/** Whether the error says that the connection failed or ended. */
export function isConnectionLoss(error: unknown): boolean {
  return chain(error).some(({ code, message }) => {
    if (CONNECTION_CODES.has(code)) return true
    return typeof message === 'string' && CONNECTION_MESSAGES.test(message)
  })
}

/** The server has closed the connection after these. */
const SESSION_ENDS = /08...|25P0[34]|57P0[1-5]/

/**
 * Whether the role of the connection may not run a statement of onceward. A handler or another user of the pool may have
 * left that role, so the pool must not lend the connection again.
 */
export const isForbidden = (error: unknown): boolean => sqlState(error) === FORBIDDEN

/** Of a BEGIN inside of a transaction that other code left open on the connection, under another level or failed. */
const LEFT_OPEN = new Set<string | undefined>([
  '25001', // active_sql_transaction
  '25P02', // in_failed_sql_transaction
])

/** Whether another connection may run what this one refused: its role lacks rights, or it is inside of a transaction. */
export const isLeftUnfit = (error: unknown): boolean =>
  isForbidden(error) || LEFT_OPEN.has(sqlState(error))

/** The connection leads to a server that takes no writes. After a failover another one may lead to the primary. */
export function isOnStandby(error: unknown): boolean {
  const state = sqlState(error)
  return state === READ_ONLY || state === UNSUPPORTED
}

/** Whether the connection is of no use after this error, so that the pool must not lend it again. */
export function endsSession(error: unknown): boolean {
  if (sqlState(error) === undefined) return true
  return isLeftUnfit(error) || isOnStandby(error) || losesSession(error)
}

/**
 * While an index is rebuilt (`reindex concurrently`), PostgreSQL may report the row that another transaction is inserting
 * as a violation of the old or the new index, although the statement says `on conflict`. Once more, the statement waits
 * for that transaction as usual.
 */
export const isRacingReindex = (error: unknown): boolean => sqlState(error) === UNIQUE_VIOLATION

/** Whether this connection has ended. Another one may still be served. */
export function losesSession(error: unknown): boolean {
  return SESSION_ENDS.test(sqlState(error) ?? '') || isConnectionLoss(error)
}

/**
 * Whether a failure that could not be recorded on its own connection is recorded by the short transactions: it waited for
 * a row, lost against a concurrent transaction, or its connection has ended. That
 * one backend went is not an outage.
 */
export function needsOwnTransaction(error: unknown): boolean {
  const isRace = diagnose(error) === 'serialization' || isRacingReindex(error)
  return isRace || sqlState(error) === LOCK_NOT_AVAILABLE || losesSession(error)
}

/** Data exceptions and integrity violations: another run of the same statement fails in the same way. */
const DEFECT = /^2[23]/

/** The error of a statement of onceward as a typed error, with the original as its cause. */
export function toStoreError(error: unknown, doing: string): Error {
  if (OncewardError.is(error)) return error
  const state = sqlState(error)
  const cause = { cause: error }
  if (MISSING.has(state)) {
    return new ConfigurationError(
      `Tables of onceward are missing while ${doing} (${messageOf(error)}): run \`await migrate(pool)\`.`,
      cause,
    )
  }
  if (state === FORBIDDEN) {
    return new ConfigurationError(
      `The database role lacks rights that onceward needs while ${doing} (${messageOf(error)}): grant it the rights of docs/least-privilege.sql.`,
      cause,
    )
  }
  if (chain(error).some(({ routine }) => routine === NO_REPLICA_IDENTITY)) {
    return new ConfigurationError(
      `A publication contains a table of onceward without a fitting replica identity while ${doing} (${messageOf(error)}): run \`alter table … replica identity default\`, or take the table out of the publication.`,
      cause,
    )
  }
  if (state === NO_PRIMARY_KEY) {
    return new ConfigurationError(
      `A table of onceward has no primary key while ${doing} (${messageOf(error)}), and without it copies of an event would run: let the restore of the tables end, or add the key again.`,
      cause,
    )
  }
  if (STATEMENT_MODE.test(messageOf(error))) {
    return new ConfigurationError(
      `PgBouncer is in statement pooling mode (${messageOf(error)}), and the inbox needs transactions: set \`pool_mode\` to transaction or session.`,
      cause,
    )
  }
  const code = state === undefined ? '' : ` [${state}]`
  if (DEFECT.test(state ?? '')) {
    return new Error(
      `PostgreSQL refused a statement of onceward while ${doing}: ${messageOf(error)}${code}. The store works. If the tables of onceward were changed, undo that; otherwise report this as a defect of onceward.`,
      cause,
    )
  }
  const hint = isOnStandby(error)
    ? ` If this server is a standby, it takes no writes: connect to the primary, or promote it.${state === UNSUPPORTED ? ' If somebody changed the tables meanwhile, start the guard again: it says what is wrong with them.' : ''}`
    : ''
  return new StoreUnavailableError(
    `PostgreSQL failed while ${doing}: ${messageOf(error)}${code}.${hint}`,
    cause,
  )
}

const LOGIN = /^28/
/** Of the server, whose error has the code of a refused login, and of pg, whose error has none. */
const NO_USER = /no PostgreSQL user name specified/
const NO_PASSWORD = /client password must be a(?: non-empty)? string/

/** The error of a start. It is a {@link ConfigurationError} if no waiting repairs it. */
export function toStartError(error: unknown): unknown {
  if (error instanceof ConfigurationError) return error
  const texts = chain(error).flatMap(({ message }) => (typeof message === 'string' ? message : []))
  const cause = { cause: error }
  const said = texts.at(-1) ?? ''
  if (texts.some((text) => NO_USER.test(text) || NO_PASSWORD.test(text))) {
    return new ConfigurationError(
      `The pool has no user or no password for PostgreSQL (${said}): set \`connectionString\` of the pool. Is the variable that it is read from, such as DATABASE_URL, empty?`,
      cause,
    )
  }
  const state = sqlState(error)
  if (state === '3D000') {
    return new ConfigurationError(
      `The database of the pool does not exist (${said}): create it, or correct its name in \`connectionString\`.`,
      cause,
    )
  }
  if (!LOGIN.test(state ?? '')) return error
  return new ConfigurationError(
    `PostgreSQL refused the login of the pool (${said}): correct the user and the password in \`connectionString\`, or let the server's pg_hba.conf allow this login.`,
    cause,
  )
}

const MADE_READ_ONLY =
  'The handler made its transaction read-only, so its end could not be stored: leave out `set transaction read only`.'

/**
 * The error of a statement of onceward that travels with COMMIT. It is typed if it says nothing about the event: the
 * tables or the rights do not fit, the server is in trouble, or another session has locked a table.
 */
export function toCommitError(error: unknown): unknown {
  // The claim has written in the same transaction, so the server takes writes.
  if (sqlState(error) === READ_ONLY) return new RetryableError(MADE_READ_ONLY, { cause: error })
  const typed = toStoreError(error, 'committing')
  const isStore = diagnose(error) === 'store' || sqlState(error) === QUERY_CANCELED
  return isStore || typed instanceof ConfigurationError ? typed : error
}

interface ErrorLike {
  readonly code?: unknown
  readonly message?: unknown
  /** The function of PostgreSQL that reported the error: unlike the message, it is in no language. */
  readonly routine?: unknown
  readonly causes: readonly unknown[]
}

/** The error, its causes, and the members of an AggregateError, each of them once. */
function chain(error: unknown): readonly ErrorLike[] {
  const seen = new Set<unknown>()
  const isNew = (each: unknown): boolean => {
    if (seen.has(each) || seen.size >= MOST_ERRORS) return false
    seen.add(each)
    return true
  }
  const found: ErrorLike[] = []
  let layer: readonly unknown[] = [error]
  for (let depth = 0; depth < DEPTH; depth += 1) {
    const errors = layer.filter(isNew).map(toErrorLike)
    found.push(...errors)
    layer = errors.flatMap(({ causes }) => causes)
  }
  return found
}

/** Handlers may throw any value. */
function toErrorLike(error: unknown): ErrorLike {
  const { code, originalCode, message, routine, cause, errors, meta } = Object(error)
  const members = Array.isArray(errors) ? errors.slice(0, MOST_ERRORS) : []
  const found = [cause, ...members]
  // Prisma puts the server's error there: as `code` before version 7, and as `originalCode` below an adapter's error since.
  if (meta !== undefined) found.push(Object(meta).driverAdapterError, meta)
  return { code: originalCode ?? code, message, routine, causes: found }
}

/** Whether the connection is lost with the error: no statement can raise one of the severity FATAL. */
export function endsConnection(error: unknown): boolean {
  const { severity } = Object(error) as { readonly severity?: unknown }
  if (severity === 'FATAL' || severity === 'PANIC') return true
  return sqlState(error) === undefined && isConnectionLoss(error)
}
