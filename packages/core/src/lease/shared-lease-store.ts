import { describeError } from '../model/errors.ts'
import type { HeldAnswer, LeaseSession } from '../model/lease-store.ts'
import type { Logger } from '../model/logger.ts'

/** A lease store that knows how its last call ended. */
export interface WatchedLeases extends LeaseSession {
  /** The error of the last call; undefined if it was answered. */
  outage(): { readonly error: unknown } | undefined
}

/**
 * The lease store, shared by all events of a guard. Calls that end claims at the same moment are combined into one
 * round trip, without waiting for more calls. An outage is logged once when it begins and once when it ends.
 */
export function sharedLeaseStore(session: LeaseSession, logger: Logger): WatchedLeases {
  const { watch, outage } = createWatch(logger)
  return {
    outage,
    claim: (claims) => watch(session.claim(claims)),
    renew: (held, leaseMs) => watch(session.renew(held, leaseMs)),
    complete: gather((done, rememberMs) => watch(session.complete(done, rememberMs))),
    fail: gather((failed) => watch(session.fail(failed))),
    release: gather((held) => watch(session.release(held))),
    bury: gather((dead, rememberMs) => watch(session.bury(dead, rememberMs))),
  }
}

interface Watch extends Pick<WatchedLeases, 'outage'> {
  watch<Answer>(answer: Promise<Answer>): Promise<Answer>
}

function createWatch(logger: Logger): Watch {
  let outage: { readonly error: unknown } | undefined
  return {
    outage: () => outage,
    watch: async (answer) => {
      try {
        const answered = await answer
        if (outage !== undefined) logger.info({}, 'the lease store answers again')
        outage = undefined
        return answered
      } catch (error) {
        if (outage === undefined) {
          logger.warn({ err: describeError(error) }, 'the lease store does not answer')
        }
        outage = { error }
        throw error
      }
    },
  }
}

type Tell<One> = (all: readonly One[], rememberMs: number) => Promise<readonly HeldAnswer[]>

interface Gathering<One> {
  readonly all: One[]
  readonly told: Promise<readonly HeldAnswer[]>
}

function gather<One>(
  tell: Tell<One>,
): (some: readonly One[], rememberMs?: number) => Promise<readonly HeldAnswer[]> {
  const open = new Map<number, Gathering<One>>()
  const begin = (rememberMs: number): Gathering<One> => {
    const all: One[] = []
    const told = Promise.resolve().then(() => {
      open.delete(rememberMs)
      return tell(all, rememberMs)
    })
    const gathering = { all, told }
    open.set(rememberMs, gathering)
    return gathering
  }
  return async (some, rememberMs = 0) => {
    const { all, told } = open.get(rememberMs) ?? begin(rememberMs)
    const from = all.length
    all.push(...some)
    return (await told).slice(from, from + some.length)
  }
}
