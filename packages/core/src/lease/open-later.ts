import { StoreUnavailableError } from '../model/errors.ts'
import type { LeaseSession } from '../model/lease-store.ts'
import type { Runtime } from '../model/runtime.ts'

/** Calls of a store that is not open yet try to open it this often. */
const AGAIN_MS = 1_000

/**
 * Opens a lease store whose outage stops no event (`onStoreDown: 'unguarded'`): one that is down now is opened later.
 * Until then its calls are rejected at once.
 *
 * @throws {@link ConfigurationError} if the store answers and cannot do what the guard needs.
 */
export async function openNowOrLater(
  open: () => Promise<LeaseSession>,
  runtime: Runtime,
): Promise<LeaseSession> {
  try {
    return await open()
  } catch (error) {
    if (!(error instanceof StoreUnavailableError)) throw error
    return openLater(open, { error, runtime })
  }
}

interface Unopened {
  /** Of the last try. */
  error: unknown
  readonly runtime: Runtime
}

function openLater(open: () => Promise<LeaseSession>, unopened: Unopened): LeaseSession {
  const { runtime } = unopened
  let session: LeaseSession | undefined
  let isOpening = false
  let failedAtMs = runtime.monotonic()
  const tryAgain = async (): Promise<void> => {
    isOpening = true
    try {
      session = await open()
    } catch (error) {
      unopened.error = error
      failedAtMs = runtime.monotonic()
    }
    isOpening = false
  }
  /** Events do not wait for the next opening, because a store that hangs would block all of them. */
  const opened = (): LeaseSession => {
    if (session !== undefined) return session
    if (!isOpening && runtime.monotonic() - failedAtMs >= AGAIN_MS) void tryAgain()
    throw unopened.error
  }
  return {
    claim: async (claims) => opened().claim(claims),
    renew: async (held, leaseMs) => opened().renew(held, leaseMs),
    complete: async (done, rememberMs) => opened().complete(done, rememberMs),
    fail: async (failed) => opened().fail(failed),
    release: async (held) => opened().release(held),
    bury: async (dead, rememberMs) => opened().bury(dead, rememberMs),
  }
}
