import type { LeaseRegistration } from '@onceward/core'

/** Told of a key under our namespace that is not ours: of another type, of another version, or cut short. */
export type OnForeign = (key: string) => void

const PAUSE_MS = 60_000

/** Says so at most once a minute: another version of ours may have left thousands. */
export function createForeignReport(registration: LeaseRegistration): OnForeign {
  const { consumer, identity, logger, runtime } = registration
  const events = identity === undefined ? 'wait until it is gone' : 'are left to Postgres'
  const remedy = 'see with TYPE and GET whose it is, and DEL it when nobody needs it'
  let saidAtMs = Number.NEGATIVE_INFINITY
  let since = 0
  return (key) => {
    since += 1
    const nowMs = runtime.monotonic()
    if (nowMs - saidAtMs < PAUSE_MS) return
    const fields = { consumer, key, count: since, remedy }
    logger.warn(fields, `a key under our namespace in Redis is not ours; its events ${events}`)
    saidAtMs = nowMs
    since = 0
  }
}
