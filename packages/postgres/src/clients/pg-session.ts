import type { PoolClient } from 'pg'
import { type SessionSettings, settingMs } from '../driver/session-settings.ts'
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
  /** Settings to be restored. Undefined if they must be read first. */
  settings(): SessionSettings | undefined
  /** Stores the first answer of `unknownBoundText`. */
  learn(row: Readonly<Record<string, unknown>>): void
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
  let learned: { readonly settings: SessionSettings; readonly atMs: number } | undefined
  return {
    pid: undefined,
    wire: wireSession(client.connection),
    isBusy: () => Reflect.get(client, 'readyForQuery') !== true,
    settings: () => {
      if (learned === undefined || performance.now() - learned.atMs > BELIEVED_MS) return undefined
      return learned.settings
    },
    learn(row) {
      this.pid = Number(row['pid'])
      // Behind a pooler the next transaction may run in another session.
      const isDirect = this.pid === Reflect.get(client, 'processID')
      const settings = toSettings(row)
      learned = isDirect && settings ? { settings, atMs: performance.now() } : undefined
    },
  }
}

function toSettings(row: Readonly<Record<string, unknown>>): SessionSettings | undefined {
  const settings = {
    lockTimeout: String(row['lock_timeout']),
    statementTimeout: String(row['statement_timeout']),
    idleTimeout: String(row['idle_timeout']),
    synchronousCommit: String(row['synchronous_commit']),
  }
  const { lockTimeout, statementTimeout, idleTimeout } = settings
  const times = [lockTimeout, statementTimeout, idleTimeout]
  return times.every((time) => settingMs(time) !== undefined) ? settings : undefined
}
