import { createHeldBackoff } from '../concurrency/backoff.ts'
import { type Breaker, createBreaker } from '../concurrency/breaker.ts'
import { GroupGate } from '../concurrency/group-gate.ts'
import { createSemaphore } from '../concurrency/semaphore.ts'
import { track } from '../concurrency/timeout.ts'
import { LocalDefers } from '../handler/deferral.ts'
import { watchTx } from '../handler/handler-context.ts'
import { LateStatements } from '../handler/late-statements.ts'
import { claimsByNeed } from '../lease/claims-by-need.ts'
import { openNowOrLater } from '../lease/open-later.ts'
import { createLeaseRenewer } from '../lease/renew.ts'
import { sharedLeaseStore } from '../lease/shared-lease-store.ts'
import { describeError } from '../model/errors.ts'
import type { Burial, IdentifiedEvent, Inbox, InboxSession } from '../model/inbox.ts'
import type { LeaseRegistration, LeaseSession } from '../model/lease-store.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { decodeAgain } from '../receive/decode-again.ts'
import { Known } from '../run/known.ts'
import type { OpenedLeases, OpenStores } from '../run/stores.ts'
import { sealedInbox } from '../seal/sealed-inbox.ts'
import { sealedLeases } from '../seal/sealed-leases.ts'
import { Sealer } from '../seal/sealer.ts'
import { LocalMessageCounts } from '../support/message-counts.ts'
import { DoneMemory } from '../transaction/done-memory.ts'
import type { Engine, HandlerCall, Passenger } from '../transaction/engine.ts'
import { createLateReleases } from '../transaction/release-later.ts'

/** Most messages whose failed reads a process without an inbox counts: a lane or a prefetch holds far fewer. */
const MOST_COUNTED = 10_000

/** Errors with which a lease store beside an inbox refused to open. */
const leaseErrors = new WeakSet()

/** Whether the stores are not open because of the lease store, although there is an inbox. */
export const isOfLeases = (error: unknown): boolean => leaseErrors.has(error as object)

/** Opens the stores once. A failed opening is not cached: the next call tries again. */
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
  const localCounts = new LocalMessageCounts(MOST_COUNTED)
  const localDefers = new LocalDefers()
  const { groupConcurrency } = options
  const groups = groupConcurrency && new GroupGate(groupConcurrency.max)
  if (options.inbox === undefined) {
    const leases = await openLeases(options)
    if (leases === undefined)
      throw new Error('A guard needs an inbox or a lease store. Give one of them.')
    const secret = new TextEncoder().encode(options.runtime.uuid())
    const slots = createSemaphore(options.concurrency)
    const pausing = options.onStoreDown === 'unguarded' ? leases : withBreaker(leases, breaker)
    const others = { secret, slots, reads: new Set<never>(), localCounts, localDefers, groups }
    return { engine: undefined, known: undefined, leases: pausing, ...others }
  }
  const session = await openInbox(options.inbox, options)
  const reads = new Set<Promise<unknown>>()
  const leases = await openLeases(options, {
    identity: () => track(reads, session.identity()),
    isDone: async (ids) => {
      // Stored states are read by the id alone.
      const events = ids.map((id) => ({ id }) as IdentifiedEvent)
      const known = await track(reads, session.classify(events))
      return known.map(({ kind }) => kind === 'done')
    },
  }).catch((error: unknown) => {
    if (typeof error === 'object' && error !== null) leaseErrors.add(error)
    // The next opening makes another session.
    void closed(session)
    throw error
  })
  const slots = createSemaphore<Passenger>(session.concurrency)
  const heldBackoff = createHeldBackoff(options.runtime)
  const lateReleases = createLateReleases(session, (error, runs) => {
    options.logger.warn(
      { err: describeError(error), runs },
      'runs with no recorded result are released later: check the database of the inbox',
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
    txWatch: watchTx(options),
    late: new LateStatements(options, (events) => track(reads, noteLate(session, events))),
    sharing: { apartUntilMs: undefined },
    seenDone: new DoneMemory({
      identity: () => track(reads, session.identity()),
      runtime: options.runtime,
      dedupWindowMs: options.dedupWindowMs,
    }),
  }
  const known = new Known(engine.seenDone, leases?.byNeed)
  const { secret } = session
  return { engine, known, leases, secret, slots, reads, localCounts, localDefers, groups }
}

/** Without an inbox no event runs while claims get no answer, so consumers pause (design.md §5). */
function withBreaker(leases: OpenedLeases, breaker: Breaker): OpenedLeases {
  const claim: OpenedLeases['store']['claim'] = async (claims) => {
    try {
      const results = await leases.store.claim(claims)
      breaker.succeeded()
      return results
    } catch (error) {
      breaker.failed(error)
      throw error
    }
  }
  return { ...leases, store: { ...leases.store, claim } }
}

async function noteLate(session: InboxSession<unknown>, events: readonly Burial[]): Promise<void> {
  await session.noteLate?.(events)
}

async function closed(session: InboxSession<unknown>): Promise<void> {
  try {
    await session.close?.()
  } catch {
    // The opening has failed, and that error is the one to report.
  }
}

async function openLeases(
  options: ResolvedOptions,
  inbox: Pick<LeaseRegistration, 'identity' | 'isDone'> = {},
): Promise<OpenedLeases | undefined> {
  const { consumer, dedupWindowMs, leaseMs, leases, logger, onStoreDown, runtime, seal } = options
  if (leases === undefined) return undefined
  const registration = { consumer, dedupWindowMs, leaseMs, ...inbox, logger, runtime }
  const open = async (): Promise<LeaseSession> => (await leases.open?.(registration)) ?? leases
  const session = onStoreDown === 'unguarded' ? await openNowOrLater(open, runtime) : await open()
  // Beside an inbox an unused claim costs time only, and `unguarded` runs the event anyway.
  const releasesUnanswered = inbox.identity === undefined && onStoreDown !== 'unguarded'
  const store = sharedLeaseStore(
    seal === undefined ? session : sealedLeases(session, new Sealer(seal, options)),
    { logger, runtime, releasesUnanswered },
  )
  const byNeed = claimsByNeed(options, store)
  const { outage } = store
  const close = async (): Promise<void> => {
    await Promise.all([store.close(), byNeed?.drain()])
  }
  return { options, store, outage, close, byNeed, renewer: createLeaseRenewer(options, store) }
}

async function openInbox(
  inbox: Inbox<unknown>,
  options: ResolvedOptions,
): Promise<InboxSession<unknown>> {
  const session = await inbox.open({
    consumer: options.consumer,
    dedupWindowMs: options.dedupWindowMs,
    fingerprintRule: options.fingerprintRule,
    maxAttempts: options.retry.attempts,
    concurrency: options.concurrency,
    concurrencyChosen: options.concurrencyChosen,
    logger: options.logger,
    runtime: options.runtime,
  })
  const { seal } = options
  return seal === undefined ? session : sealedInbox(session, new Sealer(seal, options))
}
