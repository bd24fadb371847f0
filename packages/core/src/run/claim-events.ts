import { claimLeases, type Leases } from '../lease/claim.ts'
import { isHeldElsewhere } from '../lease/wait-for-holder.ts'
import { end, isOver } from './end-event.ts'
import type { Processing } from './processing.ts'
import type { Routed } from './route.ts'

/**
 * Step 2: starts the flights of the events in this process, answers what is known to be done, and claims the others. An
 * event that this process has in flight already is waited for in its turn. Undefined: no lease store is asked.
 */
export function claimEvents(
  processing: Processing,
  events: readonly Routed[],
): Promise<void> | undefined {
  const { inFlight, isParking, stores } = processing
  const { leases } = stores
  if (isParking) return undefined
  let claiming: Routed[] | undefined
  for (const event of events) {
    if (!event.hasKey || inFlight.has(event.member.event.id)) continue
    if (startFlight(processing, event) || leases === undefined) continue
    if (event.known?.kind === 'open' && event.known.marks !== undefined) continue
    claiming ??= []
    claiming.push(event)
  }
  if (leases === undefined || claiming === undefined) return undefined
  return claimAll(processing, leases, claiming)
}

/** Whether the event is known to be done. It has its outcome then. */
export function startFlight(processing: Processing, event: Routed): boolean {
  const { inFlight, stores } = processing
  event.endFlight = inFlight.start(event.member.event.id)
  event.known = stores.known?.before(event.member)
  if (event.known?.kind !== 'done') return false
  void end(processing, event, { kind: 'duplicate', result: event.known.result })
  return true
}

async function claimAll(
  processing: Processing,
  leases: Leases,
  events: readonly Routed[],
): Promise<void> {
  await claimEach(leases, events)
  for (const event of events) {
    const { claimed } = event
    if (isOver(processing, event) || claimed?.kind !== 'outcome') continue
    // One that another process holds is waited for in its turn.
    if (!isHeldElsewhere(claimed)) void end(processing, event, claimed.outcome)
  }
}

export async function claimEach(leases: Leases, events: readonly Routed[]): Promise<void> {
  const members = events.map(({ member }) => member)
  const claims = await claimLeases(leases, members)
  for (const [index, event] of events.entries()) {
    const claimed = claims[index]
    if (claimed === undefined) continue
    event.claimed = claimed
    if (claimed.kind === 'run') event.member = claimed.member
  }
}
