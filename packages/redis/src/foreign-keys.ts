import type { LeaseRegistration } from '@onceward/core'

/** Called with a key under our namespace that onceward cannot read: another type or format, or cut short. */
export type OnForeignKey = (key: string) => void

const PAUSE_MS = 60_000

/** Logs at most once a minute, because another version of onceward may have left thousands of such keys. */
export function createForeignKeyReport(registration: LeaseRegistration): OnForeignKey {
  const { consumer, identity, logger, runtime } = registration
  const effect =
    identity === undefined ? 'cannot run until the key is gone' : 'are decided by PostgreSQL'
  const remedy = 'find its owner with TYPE and GET, and DEL the key if it is not needed'
  let loggedAtMs = Number.NEGATIVE_INFINITY
  let since = 0
  return (key) => {
    since += 1
    const nowMs = runtime.monotonic()
    if (nowMs - loggedAtMs < PAUSE_MS) return
    const fields = { consumer, key, count: since, remedy }
    logger.warn(
      fields,
      `onceward cannot read a key under its namespace in Redis; events of this key ${effect}`,
    )
    loggedAtMs = nowMs
    since = 0
  }
}
