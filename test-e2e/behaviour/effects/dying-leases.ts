import type { LeaseStore } from '@onceward/core'
import type { LeaseSession } from '@onceward/core/ports'
import { die } from '../../support/crash/crash.ts'
import type { Death } from './protocol.ts'

/** The same lease store in a process that kills itself at one point. */
export function dyingLeases(leases: LeaseStore, death: Death | undefined): LeaseStore {
  if (death === undefined) return leases
  return {
    ...leases,
    open: async (registration) =>
      dyingSession((await leases.open?.(registration)) ?? leases, death),
  }
}

function dyingSession(session: LeaseSession, death: Death): LeaseSession {
  return {
    claim: async (claims) => {
      const answers = await session.claim(claims)
      const isHeld = answers.some(({ kind }) => kind === 'acquired')
      return death === 'before-call' && isHeld ? die() : answers
    },
    renew: (held, leaseMs) => session.renew(held, leaseMs),
    complete: (done, rememberMs) =>
      death === 'before-complete' ? die() : session.complete(done, rememberMs),
    fail: (failed) => session.fail(failed),
    release: (held) => session.release(held),
    bury: (dead, rememberMs) => session.bury(dead, rememberMs),
  }
}
