import { describeError } from '../model/errors.ts'
import type { LeaseSession } from '../model/lease-store.ts'
import type { Logger } from '../model/logger.ts'

/** Says once that the store stopped answering, and once that it answers again: an outage must not flood the log. */
export function watchedLeases(session: LeaseSession, logger: Logger): LeaseSession {
  let isDown = false
  const watch = async <Answer>(answer: Promise<Answer>): Promise<Answer> => {
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
  return {
    claim: (claims) => watch(session.claim(claims)),
    renew: (held, leaseMs) => watch(session.renew(held, leaseMs)),
    complete: (done, rememberMs) => watch(session.complete(done, rememberMs)),
    fail: (failed) => watch(session.fail(failed)),
    release: (held) => watch(session.release(held)),
    bury: (dead, rememberMs) => watch(session.bury(dead, rememberMs)),
  }
}
