import { toLanes } from '../concurrency/lanes.ts'
import type { StopSignals } from '../concurrency/stop-signals.ts'
import { type Claimed, claimLeases, type Leases } from '../lease/claim.ts'
import { waitForHolder } from '../lease/wait-for-holder.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { Handler } from '../options/options.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { laneFollowerOutcome, type Outcome, stopsLane } from '../settlement/outcome.ts'
import type { HandlerCall } from '../transaction/engine.ts'
import { type LeasedRun, runLeased, runWithoutKey } from './lease-only.ts'
import type { OpenedLeases } from './open-stores.ts'

/** Deferral while the only store is down, ms. */
const STORE_DOWN_MS = 1_000

export interface LeasedContext {
  readonly options: ResolvedOptions
  readonly call: HandlerCall
  readonly opened: OpenedLeases
  readonly signals: StopSignals
}

type Settle = (member: InFlightEvent, outcome: Outcome, handlerMs: number | undefined) => void

/** Steps 2 and 3 for a guard without an inbox. Every member is settled once. */
export async function runWithoutInbox(
  context: LeasedContext,
  members: readonly InFlightEvent[],
  settle: Settle,
): Promise<void> {
  const entries = await claimOrFault(context.opened.leases, members)
  const lanes = toLanes(entries, ({ member }) => member.lane)
  await Promise.all(
    lanes.map(async (lane) => {
      let stoppedBy: Outcome | undefined
      for (const { member, claim: first } of lane) {
        const claim = stoppedBy ? first : await waitedFor(context, member, first)
        const run = stoppedBy
          ? { outcome: laneFollowerOutcome(stoppedBy), handlerMs: undefined }
          : await runClaimed(context, member, claim)
        if (stopsLane(run.outcome)) stoppedBy ??= run.outcome
        const held = claim.kind === 'run' ? claim.member : member
        const isUndecided = held.isUndecided === true && run.isDecided !== true
        settle({ ...held, isUndecided }, run.outcome, run.handlerMs)
      }
    }),
  )
}

/** An event that another process has in hand may be over soon. */
async function waitedFor(
  { opened, signals }: LeasedContext,
  member: InFlightEvent,
  claim: ClaimOrFault,
): Promise<ClaimOrFault> {
  if (claim.kind === 'fault') return claim
  return waitForHolder(opened.leases, { member, claimed: claim }, signals)
}

type ClaimOrFault = Claimed | { readonly kind: 'fault'; readonly error: unknown }

interface Entry {
  readonly member: InFlightEvent
  readonly claim: ClaimOrFault
}

async function claimOrFault(
  leases: Leases,
  members: readonly InFlightEvent[],
): Promise<readonly Entry[]> {
  try {
    const claims = await claimLeases(leases, members)
    return members.map((member, index) => ({ member, claim: claims[index] as Claimed }))
  } catch (error) {
    return members.map((member) => ({ member, claim: { kind: 'fault', error } }))
  }
}

async function runClaimed(
  context: LeasedContext,
  member: InFlightEvent,
  claim: ClaimOrFault,
): Promise<LeasedRun> {
  const { opened, options, signals } = context
  if (claim.kind === 'fault' && options.onStoreDown !== 'unguarded') {
    const outcome: Outcome = { kind: 'store-down', delayMs: STORE_DOWN_MS, error: claim.error }
    return { outcome, handlerMs: undefined }
  }
  const release = await opened.slots.acquire({ stop: signals.whenStopping })
  if (release === undefined || signals.isStopping()) {
    release?.()
    return { outcome: { kind: 'abandoned', reason: 'closing' }, handlerMs: undefined }
  }
  try {
    if (claim.kind === 'fault') {
      return await runWithoutKey({ options, handler: handlerOf(context) }, member, signals)
    }
    const engine = { options, handler: handlerOf(context), leases: opened.leases }
    return await runLeased(engine, claim, signals)
  } finally {
    release()
  }
}

/** No key, and the policy says: unguarded. */
export function runUnleasedMember(
  context: Omit<LeasedContext, 'opened'>,
  member: InFlightEvent,
): Promise<LeasedRun> {
  return runWithoutKey(
    { options: context.options, handler: handlerOf(context) },
    member,
    context.signals,
  )
}

/** Never one for batches: those need an inbox, or their options are refused. */
function handlerOf({ call }: Pick<LeasedContext, 'call'>): Handler<unknown, undefined> {
  return call.handler as Handler<unknown, undefined>
}
