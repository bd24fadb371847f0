import type { Breaker } from '../concurrency/breaker.ts'
import type { InFlight } from '../concurrency/in-flight.ts'
import { toLanes } from '../concurrency/lanes.ts'
import { isPromise } from '../concurrency/maybe-async.ts'
import type { StopSignals } from '../concurrency/stop-signals.ts'
import { unrecordedConflict } from '../lease/claim.ts'
import { completeLease } from '../lease/complete.ts'
import type { EventId } from '../model/brands.ts'
import type { Delivery } from '../model/delivery.ts'
import { describeError, StoreUnavailableError } from '../model/errors.ts'
import { type InFlightEvent, toGuardEvent } from '../model/in-flight-event.ts'
import { isConflict } from '../model/state-machine.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { laneFollowerOutcome, type Outcome, stopsLane } from '../settlement/outcome.ts'
import type { HandlerCall } from '../transaction/engine.ts'
import { conflictOutcome } from '../transaction/stored-state.ts'
import type { OpenStores } from './open-stores.ts'
import { type Arrival, type DeliveryGroup, type ReceiveContext, receive } from './receive.ts'
import { runUnguarded, runWithInbox } from './with-inbox.ts'
import { runUnleasedMember, runWithoutInbox } from './without-inbox.ts'

/** Deferral of deliveries that a store could not judge, ms, when the breaker knows no better. */
const STORE_DOWN_MS = 1_000

export interface RunContext {
  readonly options: ResolvedOptions
  readonly call: HandlerCall
  readonly opened: OpenStores
  readonly breaker: Breaker
  readonly flights: InFlight
  readonly signals: StopSignals
  /** Called once per delivery; everything is stored by then. */
  readonly emit: (arrival: Arrival, outcome: Outcome, facts: Facts) => void
}

export interface Facts {
  readonly key?: string | undefined
  readonly handlerMs?: number | undefined
}

/** Steps 1 to 4 for the deliveries of one call. Never rejects. */
export async function processDeliveries(
  context: RunContext,
  arrivals: readonly Arrival[],
): Promise<void> {
  const taking = receive(intakeContext(context), arrivals)
  const intake = isPromise(taking) ? await taking : taking
  for (const { arrival, outcome, key } of intake.settled) context.emit(arrival, outcome, { key })
  if (intake.unguarded.length === 0) {
    await runGroups(context, intake.groups)
    return
  }
  await Promise.all([
    runGroups(context, intake.groups),
    ...intake.unguarded.map(({ arrival, member }) => runWithoutKey(context, arrival, member)),
  ])
}

function intakeContext(context: RunContext): ReceiveContext {
  return {
    options: context.options,
    session: context.opened.engine?.session,
    fault: (error) => storeFailure(context, error),
  }
}

function storeFailure({ breaker, options }: RunContext, error: unknown): Outcome {
  if (error instanceof StoreUnavailableError) breaker.failed(error)
  else options.logger.error({ err: describeError(error) }, 'a store call failed')
  return { kind: 'store-down', delayMs: STORE_DOWN_MS, error }
}

async function runWithoutKey(
  context: RunContext,
  arrival: Arrival,
  member: InFlightEvent,
): Promise<void> {
  const { engine } = context.opened
  const { outcome, handlerMs } =
    engine === undefined
      ? await runUnleasedMember(context, member)
      : await runUnguarded(engine, member, context.signals)
  context.emit(arrival, await recorded(context, arrival.delivery, outcome), { handlerMs })
}

/** A dead letter has its durable record before it is settled. */
async function recorded(
  context: RunContext,
  delivery: Delivery,
  outcome: Outcome,
): Promise<Outcome> {
  const session = context.opened.engine?.session
  if (outcome.kind !== 'dead' || session === undefined) return outcome
  const { error, reason } = outcome
  try {
    const [ref] = await session.refuse([{ delivery, reason, error }])
    return { ...outcome, ref }
  } catch (failure) {
    return storeFailure(context, failure)
  }
}

/** Events this process has in hand already wait for that flight, with the rest of their lane. */
function runGroups(context: RunContext, groups: readonly DeliveryGroup[]): Promise<void> {
  const isFlying = ({ member }: DeliveryGroup): boolean => context.flights.has(member.event.id)
  return groups.some(isFlying)
    ? runBesideFlights(context, groups, isFlying)
    : runUnlessInFlight(context, groups)
}

async function runBesideFlights(
  context: RunContext,
  groups: readonly DeliveryGroup[],
  isFlying: (group: DeliveryGroup) => boolean,
): Promise<void> {
  const lanes = toLanes(groups, ({ member }) => member.lane)
  const flying = lanes.filter((lane) => lane.some(isFlying))
  const flyingGroups = new Set(flying.flat())
  const free = groups.filter((group) => !flyingGroups.has(group))
  await Promise.all([
    runUnlessInFlight(context, free),
    ...flying.map((lane) => waitForFlights(context, lane)),
  ])
}

async function waitForFlights(context: RunContext, lane: readonly DeliveryGroup[]): Promise<void> {
  const { flights, options } = context
  const landed: DeliveryGroup[] = []
  let stoppedBy: Outcome | undefined
  for (const group of lane) {
    const { id } = group.member.event
    if (stoppedBy === undefined && (await flights.waitFor(id, options.claimWaitMs))) {
      landed.push(group)
      continue
    }
    const delayMs = context.opened.engine?.heldBackoff.nextMs(id) ?? STORE_DOWN_MS
    stoppedBy ??= { kind: 'in-progress', delayMs }
    await concludeGroup(context, group, { member: group.member, outcome: stoppedBy })
  }
  await runUnlessInFlight(context, landed)
}

interface Flying {
  readonly group: DeliveryGroup
  readonly land: () => void
}

async function runUnlessInFlight(
  context: RunContext,
  groups: readonly DeliveryGroup[],
): Promise<void> {
  if (groups.length === 0) return
  const open = new Map<EventId, Flying>()
  for (const group of groups) {
    const { id } = group.member.event
    open.set(id, { group, land: context.flights.start(id) })
  }
  const tails: Promise<readonly DeliveryGroup[]>[] = []
  const settle = (member: InFlightEvent, outcome: Outcome, handlerMs: number | undefined): void => {
    const flying = open.get(member.event.id)
    if (flying === undefined) return
    open.delete(member.event.id)
    const { group, land } = flying
    if (isSimple(context, group, outcome)) {
      context.emit(group.arrival, outcome, { key: member.event.key, handlerMs })
      land()
      return
    }
    tails.push(concludeGroup(context, group, { member, outcome, handlerMs }).finally(land))
  }
  const members = groups.map(({ member }) => member)
  const { opened, signals } = context
  try {
    await (opened.engine === undefined
      ? runWithoutInbox({ ...context, opened }, members, settle)
      : runWithInbox({ ...opened, signals, onOutcome: settle }, members))
  } catch (error) {
    // Nobody foresaw this; what has no outcome comes back.
    const outcome = storeFailure(context, error)
    for (const { group } of [...open.values()]) settle(group.member, outcome, undefined)
  }
  if (tails.length === 0) return
  await runGroups(context, (await Promise.all(tails)).flat())
}

/** Nobody else has to hear of it. */
function isSimple(
  { opened }: RunContext,
  { followers }: DeliveryGroup,
  { kind }: Outcome,
): boolean {
  return opened.leases === undefined && followers.length === 0 && kind !== 'duplicate'
}

interface End {
  readonly member: InFlightEvent
  readonly outcome: Outcome
  readonly handlerMs?: number | undefined
}

/** Step 4, then every delivery of the event. Answers those that must still run under another fingerprint. */
async function concludeGroup(
  context: RunContext,
  group: DeliveryGroup,
  end: End,
): Promise<readonly DeliveryGroup[]> {
  const { leases } = context.opened
  if (leases !== undefined) await completeLease(leases, end.member, end.outcome)
  const { key } = group.member.event
  if (end.outcome.kind === 'duplicate')
    await tellDuplicate(context, group.member, end.outcome.result)
  context.emit(group.arrival, end.outcome, { key, handlerMs: end.handlerMs })
  if (leadConflicts(end.outcome)) return leadByNext(group)
  for (const follower of group.followers) {
    await settleFollower(context, { ...follower, lead: group.member, outcome: end.outcome })
  }
  return []
}

/** The followers are still one event: run side by side, the second would hide that the first is in hand. */
function leadByNext({ followers: [next, ...followers] }: DeliveryGroup): readonly DeliveryGroup[] {
  return next === undefined ? [] : [{ ...next, followers }]
}

/** The first was refused for its own payload: that says nothing about the event. */
function leadConflicts(outcome: Outcome): boolean {
  return outcome.kind === 'conflict' || (outcome.kind === 'dead' && outcome.ref?.kind === 'refused')
}

interface Follower {
  readonly arrival: Arrival
  readonly member: InFlightEvent
  readonly lead: InFlightEvent
  readonly outcome: Outcome
}

async function settleFollower(context: RunContext, follower: Follower): Promise<void> {
  const { arrival, lead, member, outcome } = follower
  const { key, fingerprint } = member.event
  if (!stopsLane(outcome) && isConflict(lead.event.fingerprint, fingerprint)) {
    return context.emit(arrival, await conflict(context, member), { key })
  }
  if (outcome.kind === 'processed' || outcome.kind === 'duplicate') {
    await tellDuplicate(context, member, outcome.result)
    return context.emit(arrival, { kind: 'duplicate', result: outcome.result }, { key })
  }
  context.emit(arrival, laneFollowerOutcome(outcome), { key })
}

async function conflict(context: RunContext, member: InFlightEvent): Promise<Outcome> {
  const { engine } = context.opened
  try {
    return await (engine === undefined
      ? unrecordedConflict(context.options)
      : conflictOutcome(engine, member))
  } catch (error) {
    return storeFailure(context, error)
  }
}

async function tellDuplicate(
  context: RunContext,
  member: InFlightEvent,
  result: unknown,
): Promise<void> {
  const { logger, onDuplicate } = context.options
  try {
    await onDuplicate?.(toGuardEvent(member, 1), result)
  } catch (error) {
    logger.error(
      { err: describeError(error) },
      'onDuplicate threw; the duplicate is acked all the same',
    )
  }
}
