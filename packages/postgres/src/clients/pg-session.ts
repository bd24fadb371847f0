import type { PoolClient } from 'pg'
import { type SessionSettings, settingsIn } from '../driver/session-settings.ts'
import { type WireSession, wireSession } from './pg-wire.ts'

/**
 * Settings of a connection are trusted this long, because a reload of the server's configuration changes them in
 * running sessions.
 */
const BELIEVED_MS = 5_000

/** What onceward knows about one client of pg. */
export interface PgSession {
  /** Process id of the server; undefined before the first transaction. */
  pid: number | undefined
  readonly wire: WireSession
  isBusy(): boolean
  /**
   * The settings that a transaction begins with. Undefined if they must be read first: another user of the pool may have
   * changed them.
   */
  settings(): SessionSettings | undefined
  /** Stores the first answer of `unknownBoundText`. */
  learn(row: Readonly<Record<string, unknown>>): SessionSettings
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
    isBusy: () => Reflect.get(client, 'readyForQuery') !== true,
    settings: () => {
      if (learned === undefined || commands !== wire.commands) return undefined
      return performance.now() - learned.atMs > BELIEVED_MS ? undefined : learned.settings
    },
    learn(row) {
      this.pid = Number(row['pid'])
      wire.encoding = String(row['client_encoding'])
      const settings = settingsIn(row)
      // Behind a pooler the next transaction may run in another session.
      const isDirect = this.pid === Reflect.get(client, 'processID')
      learned = isDirect ? { settings, atMs: performance.now() } : undefined
      return settings
    },
    leave(isChanged) {
      commands = wire.commands
      if (isChanged) learned = undefined
    },
  }
}
