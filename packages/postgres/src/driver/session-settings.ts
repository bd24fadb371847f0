import { literal } from './sql-literal.ts'

/** Settings of the session when a transaction of onceward began, as `current_setting` shows them. */
export interface SessionSettings {
  readonly lockTimeout: string
  /** What the handler gets: the user's value, where `lockTimeout` is a bound that onceward gave the session. */
  readonly handlerLockTimeout: string
  readonly statementTimeout: string
  readonly idleTimeout: string
  readonly synchronousCommit: string
  readonly clientMinMessages: string
  readonly sessionUser: string
  readonly role: string
}

const READ = {
  lock_timeout: 'lock_timeout',
  statement_timeout: 'statement_timeout',
  idle_timeout: 'idle_in_transaction_session_timeout',
  synchronous_commit: 'synchronous_commit',
  client_min_messages: 'client_min_messages',
  role: 'role',
  client_encoding: 'client_encoding',
}

/** Reads the settings; expressions for a select list. A statement of onceward before the handler names pg_catalog. */
export const READ_SETTINGS: string = [
  ...Object.entries(READ).map(
    ([column, name]) => `pg_catalog.current_setting('${name}') as ${column}`,
  ),
  'session_user::pg_catalog.text as session_user_name',
].join(', ')

/** The columns of {@link READ_SETTINGS}. */
export const SETTING_COLUMNS: readonly string[] = [...Object.keys(READ), 'session_user_name']

/** The settings in a row of {@link READ_SETTINGS}. */
export function settingsIn(row: Readonly<Record<string, unknown>>): SessionSettings {
  const text = (column: keyof typeof READ | 'session_user_name'): string => String(row[column])
  return {
    lockTimeout: text('lock_timeout'),
    handlerLockTimeout: text('lock_timeout'),
    statementTimeout: text('statement_timeout'),
    idleTimeout: text('idle_timeout'),
    synchronousCommit: text('synchronous_commit'),
    clientMinMessages: text('client_min_messages'),
    sessionUser: text('session_user_name'),
    role: text('role'),
  }
}

/** Only a warning shows that the wait for a standby was cancelled, and the transaction is committed on this server alone. */
export const HEAR_WARNINGS = 'set local client_min_messages = warning'

/**
 * Makes the settings of the session those that the statements of onceward mean, until the end of the transaction,
 * whatever a handler or another user of the pool has left. Functions, operators and types are those of PostgreSQL.
 */
export const ownSettings = (statementMs: number): readonly string[] => [
  'set local search_path = pg_catalog, pg_temp',
  'set local row_security = on',
  'set local lock_timeout = 0',
  `set local statement_timeout = ${statementMs}`,
]

/** The same for a short transaction, which is not bounded by its handler's deadline. */
export const shortSettings = (statementMs: number): readonly string[] => [
  ...ownSettings(statementMs),
  `set local idle_in_transaction_session_timeout = ${2 * statementMs}`,
  HEAR_WARNINGS,
  // Of PostgreSQL 17 and newer.
  `select set_config('transaction_timeout', '0', true) where current_setting('transaction_timeout', true) <> '0'`,
]

/** The user and the role that the transaction began with, also for the session after it. */
export const ownIdentity = ({ sessionUser, role }: SessionSettings): readonly string[] => [
  `set session authorization ${literal(sessionUser)}`,
  `set role ${literal(role)}`,
]

/** A commit of onceward is on disk when the server answers, even if `synchronous_commit` is off. */
export const DURABLE = 'set local synchronous_commit = on'

/** As {@link DURABLE}, if the setting in force is not known. */
export const DURABLE_IF_OFF: string = `select pg_catalog.set_config('synchronous_commit', 'on', true) where pg_catalog.texteq(pg_catalog.current_setting('synchronous_commit'), 'off')`

/** As {@link DURABLE}, if only statements of onceward can have changed the setting. */
export function durableText({ synchronousCommit }: SessionSettings): string {
  return `set local synchronous_commit = ${synchronousCommit === 'off' ? 'on' : synchronousCommit}`
}

const UNIT_MS = { us: 0.001, ms: 1, s: 1_000, min: 60_000, h: 3_600_000, d: 86_400_000 } as const
const TIME = /^(\d+)(us|ms|s|min|h|d)?$/

/** Milliseconds of a time setting as `current_setting` shows it; 0 means no limit. */
export function settingMs(setting: string): number | undefined {
  const [, digits, unit = 'ms'] = TIME.exec(setting) ?? []
  if (digits === undefined) return undefined
  return Number(digits) * UNIT_MS[unit as keyof typeof UNIT_MS]
}

/** Whether the setting is a limit that ends within the budget; 0 means no limit. */
export function isAtMost(setting: string, budgetMs: number): boolean {
  const ms = settingMs(setting) ?? 0
  return ms >= 1 && ms <= budgetMs
}
