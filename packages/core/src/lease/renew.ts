import { answerWithin, LATE, track } from '../concurrency/timeout.ts'
import type { EventId, OwnerToken } from '../model/brands.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import type { InFlightEvent, MemberLease } from '../model/in-flight-event.ts'
import type { HeldAnswer, LeaseSession } from '../model/lease-store.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'

/** Renews all live leases of a guard in one call, at a third of the lease; tells a run that its lease is lost. */
export interface LeaseRenewer {
  keepRenewed(id: EventId, ownerToken: OwnerToken): MemberLease
  stopRenewing(member: InFlightEvent): void
  /** Resolves when no renewal is under way, given up or not: the store's client may be ended then. */
  idle(): Promise<void>
}

interface Held {
  readonly id: EventId
  readonly ownerToken: OwnerToken
  readonly lost: AbortController
  /** On the monotonic clock, counted from before the call that granted it. */
  validUntilMs: number
}

export function createLeaseRenewer(options: ResolvedOptions, store: LeaseSession): LeaseRenewer {
  const { leaseMs, runtime } = options
  const held = new Map<OwnerToken, Held>()
  let cancel: (() => void) | undefined
  const calls = new Set<Promise<unknown>>()
  let round: Promise<void> = Promise.resolve()

  const schedule = (): void => {
    if (cancel !== undefined || held.size === 0) return
    const begin = (): void => {
      round = tick()
    }
    cancel = runtime.setTimer(begin, leaseMs / 3, { keepAlive: false })
  }
  const tick = async (): Promise<void> => {
    cancel = undefined
    const all = [...held.values()]
    const validUntilMs = runtime.monotonic() + leaseMs
    try {
      const answers = await renew(all)
      for (const [index, lease] of all.entries()) {
        if (answers[index] === 'lost') lease.lost.abort()
        else lease.validUntilMs = validUntilMs
      }
    } catch {
      if (options.inbox === undefined) expire(all)
    }
    schedule()
  }
  /** If the store does not answer, the renewal counts as failed when the next one is due. */
  const renew = async (all: readonly Held[]): Promise<readonly HeldAnswer[]> => {
    const call = track(calls, store.renew(all, leaseMs))
    const answers = await answerWithin(runtime, call, leaseMs / 3, { keepAlive: false })
    if (answers === LATE) throw new StoreUnavailableError('No lease was renewed in time.')
    return answers
  }
  /** Without an inbox nothing else decides: who cannot renew stops before its lease can run out. */
  const expire = (all: readonly Held[]): void => {
    const margin = leaseMs / 10
    for (const lease of all) {
      if (runtime.monotonic() > lease.validUntilMs - leaseMs / 3 - margin) lease.lost.abort()
    }
  }

  return {
    keepRenewed: (id, ownerToken) => {
      const lost = new AbortController()
      held.set(ownerToken, { id, ownerToken, lost, validUntilMs: runtime.monotonic() + leaseMs })
      schedule()
      return { ownerToken, lost: lost.signal }
    },
    stopRenewing: ({ lease }) => {
      if (lease !== undefined) held.delete(lease.ownerToken)
      if (held.size > 0) return
      cancel?.()
      cancel = undefined
    },
    idle: async () => {
      await Promise.allSettled([round, ...calls])
    },
  }
}
