import { createHeldBackoff } from '../concurrency/backoff.ts'
import { type Breaker, createBreaker } from '../concurrency/breaker.ts'
import { andThen, type MaybeAsync } from '../concurrency/maybe-async.ts'
import { createSemaphore, type Semaphore } from '../concurrency/semaphore.ts'
import { track } from '../concurrency/timeout.ts'
import { fingerprintRuleOf } from '../identity/fingerprint.ts'
import { identify } from '../identity/identify.ts'
import type { Leases } from '../lease/claim.ts'
import { createLeaseRenewer } from '../lease/renew.ts'
import { sharedLeaseStore } from '../lease/shared-lease-store.ts'
import { describeError } from '../model/errors.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { InboxSession } from '../model/inbox.ts'
import type { LeaseRegistration } from '../model/lease-store.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Engine, HandlerCall } from '../transaction/engine.ts'
import { createLateReleases } from '../transaction/release-later.ts'

/** A guard's stores, open. */
export type OpenStores = OpenInbox | OpenLeases

export interface OpenInbox extends OpenedStores {
  readonly engine: Engine
  readonly leases: Leases | undefined
}

/** Without an inbox the lease store is the only one. */
export interface OpenLeases extends OpenedStores {
  readonly engine: undefined
  readonly leases: Leases
}

interface OpenedStores {
  /** For hashed keys. */
  readonly secret: Uint8Array
  /** Handlers side by side. */
  readonly slots: Semaphore
  /** Readings of the history's name under way: the lease store asks for it beside the claims. */
  readonly reads: ReadonlySet<Promise<unknown>>
}

/** Opens the stores once; a failure is not kept, the next call tries again. */
export function createStoreOpener(
  options: ResolvedOptions,
  call: HandlerCall,
  breaker: Breaker = createBreaker(options.runtime),
): () => Promise<OpenStores> {
  let opening: Promise<OpenStores> | undefined
  return () => {
    opening ??= open(options, call, breaker).catch((error: unknown) => {
      opening = undefined
      throw error
    })
    return opening
  }
}

async function open(
  options: ResolvedOptions,
  call: HandlerCall,
  breaker: Breaker,
): Promise<OpenStores> {
  if (options.inbox === undefined) {
    const leases = await openLeases(options)
    if (leases === undefined) throw new Error('A guard has an inbox or a lease store.')
    const secret = new TextEncoder().encode(options.runtime.uuid())
    const slots = createSemaphore(options.concurrency)
    return { engine: undefined, leases, secret, slots, reads: new Set() }
  }
  const session = await openInbox(options)
  const reads = new Set<Promise<unknown>>()
  const leases = await openLeases(options, () => track(reads, session.identity()))
  const slots = createSemaphore(session.concurrency)
  const heldBackoff = createHeldBackoff(options.runtime)
  const lateReleases = createLateReleases(session, (error, runs) => {
    options.logger.warn(
      { err: describeError(error), runs },
      'runs without a verdict are given back later',
    )
  })
  const engine: Engine = {
    options,
    session,
    call,
    decodeAgain: (event) => decodeAgain(options, event),
    breaker,
    slots,
    heldBackoff,
    lateReleases,
  }
  return { engine, leases, secret: session.secret, slots, reads }
}

function decodeAgain(
  options: ResolvedOptions,
  { event: { delivery }, payload }: InFlightEvent,
): MaybeAsync<unknown> {
  return andThen(identify(delivery, options), (identified) => {
    if ('payload' in identified) return identified.payload
    // It was identified a moment ago. An option that answers otherwise now has changed its mind: the run goes on.
    return payload
  })
}

async function openLeases(
  options: ResolvedOptions,
  identity?: LeaseRegistration['identity'],
): Promise<Leases | undefined> {
  const { consumer, dedupWindowMs, leaseMs, leases, logger, runtime } = options
  if (leases === undefined) return undefined
  const registration = { consumer, dedupWindowMs, leaseMs, identity, logger, runtime }
  const store = sharedLeaseStore((await leases.open?.(registration)) ?? leases, logger)
  return { options, store, renewer: createLeaseRenewer(options, store) }
}

function openInbox(options: ResolvedOptions): Promise<InboxSession<unknown>> {
  const { inbox } = options
  if (inbox === undefined) throw new Error('A guard without an inbox has none to open.')
  return inbox.open({
    consumer: options.consumer,
    dedupWindowMs: options.dedupWindowMs,
    fingerprintRule: fingerprintRuleOf(options.fingerprint),
    maxAttempts: options.retry.attempts,
    concurrency: options.concurrency,
    concurrencyChosen: options.concurrencyChosen,
    logger: options.logger,
    runtime: options.runtime,
  })
}
