import { describeError } from '../model/errors.ts'
import type { HeldAnswer, LeaseSession } from '../model/lease-store.ts'
import type { Logger } from '../model/logger.ts'

/**
 * The lease store, shared by all events of a guard. Calls that end claims at the same moment are combined into one
 * round trip, without waiting for more calls. An outage is logged once when it begins and once when it ends.
 */
export function sharedLeaseStore(session: LeaseSession, logger: Logger): LeaseSession {
  const watch = createWatch(logger)
  return {
    claim: (claims) => watch(session.claim(claims)),
    renew: (held, leaseMs) => watch(session.renew(held, leaseMs)),
    complete: gather((done, rememberMs) => watch(session.complete(done, rememberMs))),
    fail: gather((failed) => watch(session.fail(failed))),
    release: gather((held) => watch(session.release(held))),
    bury: gather((dead, rememberMs) => watch(session.bury(dead, rememberMs))),
  }
}

function createWatch(logger: Logger): <Answer>(answer: Promise<Answer>) => Promise<Answer> {
  let isDown = false
  return async (answer) => {
    try {
      const answered = await answer
      if (isDown) logger.info({}, 'the lease store answers again')
      isDown = false
      return answered
    } catch (error) {
      if (!isDown) logger.warn({ err: describeError(error) }, 'the lease store does not answer')
      isDown = true
      throw error
    }
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
