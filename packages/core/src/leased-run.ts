import { type Claimed, claimMembers } from './claim.ts'
import type { HandlerCall, StopSignals } from './engine.ts'
import { toLanes } from './lanes.ts'
import { type LeasedRun, runLeased, runUnleased } from './lease-only.ts'
import type { Member } from './member.ts'
import type { Opened } from './opened.ts'
import type { Handler } from './options.ts'
import { followerOutcome, type Outcome, stopsLane } from './outcome.ts'
import type { ResolvedOptions } from './resolve-options.ts'
import { afterTwin } from './twins.ts'

/** Deferral while the only store is down, ms. */
const STORE_DOWN_MS = 1_000

export interface LeasedContext {
  readonly options: ResolvedOptions
  readonly call: HandlerCall
  readonly opened: Opened
  readonly signals: StopSignals
}

type Settle = (member: Member, outcome: Outcome, handlerMs: number | undefined) => void

/** Steps 2 and 3 for a guard without an inbox. Every member is settled once. */
export async function runLeasedMembers(
  context: LeasedContext,
  members: readonly Member[],
  settle: Settle,
): Promise<void> {
  const claims = await claimOrFault(context, members)
  const entries = members.map((member, index) => ({ member, claim: claims[index] }))
  const lanes = toLanes(entries, ({ member }) => member.lane)
  await Promise.all(
    lanes.map(async (lane) => {
      let stoppedBy: Outcome | undefined
      for (const { member, claim: first } of lane) {
        const claim = stoppedBy ? first : await waitedFor(context, member, first)
        const run = stoppedBy
          ? { outcome: followerOutcome(stoppedBy), handlerMs: undefined }
          : await runClaimed(context, member, claim)
        if (stopsLane(run.outcome)) stoppedBy ??= run.outcome
        const held = claim !== undefined && 'member' in claim ? claim.member : member
        const isUndecided = held.isUndecided === true && run.isDecided !== true
        settle({ ...held, isUndecided }, run.outcome, run.handlerMs)
      }
    }),
  )
}

/** An event that another process has in hand may be over soon. */
async function waitedFor(
  { opened, signals }: LeasedContext,
  member: Member,
  claim: ClaimOrFault | undefined,
): Promise<ClaimOrFault | undefined> {
  const { leases } = opened
  if (leases === undefined || claim === undefined || claim.kind === 'fault') return claim
  return afterTwin(leases, { member, claimed: claim }, signals)
}

type ClaimOrFault = Claimed | { readonly kind: 'fault'; readonly error: unknown }

async function claimOrFault(
  { opened }: LeasedContext,
  members: readonly Member[],
): Promise<readonly ClaimOrFault[]> {
  const { leases } = opened
  if (leases === undefined) return []
  try {
    return await claimMembers(leases, members)
  } catch (error) {
    return members.map(() => ({ kind: 'fault', error }))
  }
}

async function runClaimed(
  context: LeasedContext,
  member: Member,
  claim: ClaimOrFault | undefined,
): Promise<LeasedRun> {
  const { opened, options, signals } = context
  if (claim?.kind === 'fault' && options.onStoreDown !== 'unguarded') {
    const outcome: Outcome = { kind: 'store-down', delayMs: STORE_DOWN_MS, error: claim.error }
    return { outcome, handlerMs: undefined }
  }
  const release = await opened.slots.acquire(signals.whenStopping)
  if (release === undefined || signals.isStopping()) {
    release?.()
    return { outcome: { kind: 'abandoned', reason: 'closing' }, handlerMs: undefined }
  }
  try {
    if (claim === undefined || claim.kind === 'fault' || opened.leases === undefined) {
      return await runUnleased({ options, handler: handlerOf(context) }, member, signals)
    }
    const engine = { options, handler: handlerOf(context), leases: opened.leases }
    return await runLeased(engine, claim, signals)
  } finally {
    release()
  }
}

/** No key, and the policy says: unguarded. */
export function runUnleasedMember(context: LeasedContext, member: Member): Promise<LeasedRun> {
  return runUnleased(
    { options: context.options, handler: handlerOf(context) },
    member,
    context.signals,
  )
}

/** Batch handlers need an inbox; their options say so. */
function handlerOf({ call }: LeasedContext): Handler<unknown, undefined> {
  if (call.kind === 'single') return call.handler as Handler<unknown, undefined>
  return (event, context) => call.handler([event], context)
}
