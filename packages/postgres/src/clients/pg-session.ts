import type { PoolClient } from 'pg'
import { type SessionSettings, settingsIn } from '../driver/session-settings.ts'
import { isBusy } from './pg-checkout.ts'
import { type WireSession, wireSession } from './pg-wire.ts'

/**
 * Settings of a connection are trusted this long, because a reload of the server's configuration changes them in
 * running sessions.
 */
const BELIEVED_MS = 5_000

export interface SessionBound {
  /** As the session was before. */
  readonly former: SessionSettings
  readonly budgetMs: number
}

/** What onceward knows about one client of pg. */
export interface PgSession {
  /** Process id of the server; undefined before the first transaction. */
  pid: number | undefined
  readonly wire: WireSession
  /** The `lock_timeout` that handlers get, where onceward has given the session another. */
  handlerLockTimeout: string | undefined
  /** The bounds that onceward has given the session. */
  bound: SessionBound | undefined
  /** Whether the session has no bounds yet, or those of a transaction that had less time. */
  needsBound(budgetMs: number): boolean
  isBusy(): boolean
  /**
   * The settings that a transaction begins with. Undefined if they must be read first: another user of the pool may have
   * changed them.
   */
  settings(): SessionSettings | undefined
  /** Whether they are known from a moment ago, and only our statements have come since the transaction began. */
  isBelieved(): boolean
  /** Stores the first answer of `unknownBoundText`, or that of `READ_SESSION`. */
  learn(row: Readonly<Record<string, unknown>>): SessionSettings
  /** Whether the client speaks to the server itself: behind a pooler the next transaction may run in another session. */
  isDirect(): boolean
  /**
   * The connection leaves. What it learned holds until another user of the pool sends a statement.
   *
   * @param isChanged - Whether the handler may have changed the settings.
   */
  leave(isChanged: boolean): void
}

const sessions = new WeakMap<PoolClient, PgSession>()

export function sessionOf(client: PoolClient): PgSession {
  const known = sessions.get(client)
  if (known !== undefined) return known
  const session = createSession(client)
  sessions.set(client, session)
  return session
}

function createSession(client: PoolClient): PgSession {
  const wire = wireSession(client.connection)
  let learned: { readonly settings: SessionSettings; readonly atMs: number } | undefined
  /** Statements of the connection when it left. */
  let commands = 0
  return {
    pid: undefined,
    wire,
    isBusy: () => isBusy(client),
    settings() {
      return commands === wire.commands && this.isBelieved() ? learned?.settings : undefined
    },
    isBelieved: () => learned !== undefined && performance.now() - learned.atMs <= BELIEVED_MS,
    handlerLockTimeout: undefined,
    bound: undefined,
    needsBound(budgetMs) {
      return this.bound === undefined ? this.pid === undefined : this.bound.budgetMs < budgetMs
    },
    learn(row) {
      this.pid = Number(row['pid'])
      wire.encoding = String(row['client_encoding'])
      const read = settingsIn(row)
      const { handlerLockTimeout = read.lockTimeout } = this
      const settings = { ...read, handlerLockTimeout }
      learned = this.isDirect() ? { settings, atMs: performance.now() } : undefined
      commands = wire.commands
      return settings
    },
    isDirect() {
      return this.pid === Reflect.get(client, 'processID')
    },
    leave(isChanged) {
      commands = wire.commands
      if (isChanged) learned = undefined
    },
  }
}
