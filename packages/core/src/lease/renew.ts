import type { MaybeAsync } from '../concurrency/maybe-async.ts'
import { answerWithin, LATE, track } from '../concurrency/timeout.ts'
import type { EventId, OwnerToken } from '../model/brands.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import type { GuardReading, LeaseRenewals } from '../model/guard-reading.ts'
import type { InFlightEvent, MemberLease } from '../model/in-flight-event.ts'
import type { HeldAnswer, LeaseSession } from '../model/lease-store.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'

/** Renews all held leases of a guard in one call, every third of the lease time. Notifies a run when its lease is lost. */
export interface LeaseRenewer {
  /** @param askedAtMs - Monotonic time from before the call that granted the lease: it is valid from then on. */
  keepRenewed(id: EventId, ownerToken: OwnerToken, askedAtMs: number): MemberLease
  /**
   * Whether the lease is safe to start a handler under: at least two thirds of it are left, or a renewal succeeds now.
   * An owner that was frozen between its claim and the answer must not start beside the next owner.
   */
  isSafe(member: InFlightEvent): MaybeAsync<boolean>
  stopRenewing(member: InFlightEvent): void
  /**
   * Resolves when no renewal is in progress, including renewals that timed out. The store's client may be closed then.
   */
  idle(): Promise<void>
  read(): NonNullable<GuardReading['leases']>
}

interface Held {
  readonly id: EventId
  readonly ownerToken: OwnerToken
  readonly lost: AbortController
  /** On the monotonic clock, measured from before the call that granted the lease. */
  validUntilMs: number
}

export function createLeaseRenewer(options: ResolvedOptions, store: LeaseSession): LeaseRenewer {
  return new Renewer(options, store)
}

class Renewer implements LeaseRenewer {
  readonly #options: ResolvedOptions
  readonly #store: LeaseSession
  readonly #held = new Map<OwnerToken, Held>()
  readonly #calls = new Set<Promise<unknown>>()
  readonly #renewals: { -readonly [Answer in keyof LeaseRenewals]: number } = {
    held: 0,
    lost: 0,
    failed: 0,
  }
  #round: Promise<void> = Promise.resolve()
  #cancel: (() => void) | undefined

  constructor(options: ResolvedOptions, store: LeaseSession) {
    this.#options = options
    this.#store = store
  }

  keepRenewed(id: EventId, ownerToken: OwnerToken, askedAtMs: number): MemberLease {
    const lost = new AbortController()
    const validUntilMs = askedAtMs + this.#options.leaseMs
    this.#held.set(ownerToken, { id, ownerToken, lost, validUntilMs })
    this.#schedule()
    return { ownerToken, lost: lost.signal }
  }

  isSafe({ lease }: InFlightEvent): MaybeAsync<boolean> {
    const { leaseMs, runtime } = this.#options
    const own = lease === undefined ? undefined : this.#held.get(lease.ownerToken)
    if (own === undefined || own.lost.signal.aborted) return false
    const leftMs = own.validUntilMs - runtime.monotonic()
    return leftMs >= (leaseMs * 2) / 3 ? true : this.#renewNow(own)
  }

  stopRenewing({ lease }: InFlightEvent): void {
    if (lease !== undefined) this.#held.delete(lease.ownerToken)
    if (this.#held.size > 0) return
    this.#cancel?.()
    this.#cancel = undefined
  }

  read(): NonNullable<GuardReading['leases']> {
    return { held: this.#held.size, renewals: { ...this.#renewals } }
  }

  async idle(): Promise<void> {
    await Promise.allSettled([this.#round, ...this.#calls])
  }

  #schedule(): void {
    const { leaseMs, runtime } = this.#options
    if (this.#cancel !== undefined || this.#held.size === 0) return
    const begin = (): void => {
      this.#round = this.#renewAll()
    }
    this.#cancel = runtime.setTimer(begin, leaseMs / 3, { keepAlive: false })
  }

  async #renewAll(): Promise<void> {
    const { inbox, leaseMs, runtime } = this.#options
    this.#cancel = undefined
    const all = [...this.#held.values()]
    const validUntilMs = runtime.monotonic() + leaseMs
    try {
      const answers = await this.#renew(all)
      for (const [index, lease] of all.entries()) {
        if (answers[index] === 'lost') lease.lost.abort()
        else lease.validUntilMs = validUntilMs
      }
    } catch {
      if (inbox === undefined) this.#expire(all)
    }
    this.#schedule()
  }

  async #renewNow(lease: Held): Promise<boolean> {
    const validUntilMs = this.#options.runtime.monotonic() + this.#options.leaseMs
    try {
      const [answer] = await this.#renew([lease])
      if (answer === 'held') {
        lease.validUntilMs = validUntilMs
        return true
      }
    } catch {
      // A store that does not answer has not renewed the lease.
    }
    lease.lost.abort()
    return false
  }

  /** If the store does not answer, the renewal counts as failed when the next one is due. */
  async #renew(all: readonly Held[]): Promise<readonly HeldAnswer[]> {
    const { leaseMs, runtime } = this.#options
    const call = track(this.#calls, this.#store.renew(all, leaseMs))
    try {
      const answers = await answerWithin(runtime, call, leaseMs / 3, { keepAlive: false })
      if (answers === LATE)
        throw new StoreUnavailableError(
          'The lease store did not renew the leases in time. Check the server and its connection.',
        )
      for (const answer of answers) this.#renewals[answer] += 1
      return answers
    } catch (error) {
      this.#renewals.failed += all.length
      throw error
    }
  }

  /** Without an inbox only the lease protects the event, so a run stops before a lease that cannot be renewed expires. */
  #expire(all: readonly Held[]): void {
    const { leaseMs, runtime } = this.#options
    const marginMs = leaseMs / 10
    for (const lease of all) {
      if (runtime.monotonic() > lease.validUntilMs - leaseMs / 3 - marginMs) lease.lost.abort()
    }
  }
}
