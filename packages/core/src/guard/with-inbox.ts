import { chunks, toLanes } from '../concurrency/lanes.ts'
import type { StopSignals } from '../concurrency/stop-signals.ts'
import { type Claimed, claimLeases, type Leases } from '../lease/claim.ts'
import { isHeldElsewhere, waitForHolder } from '../lease/wait-for-holder.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import { toGuardEvent } from '../model/in-flight-event.ts'
import type { InboxTransaction } from '../model/inbox.ts'
import { laneFollowerOutcome, type Outcome, stopsLane } from '../settlement/outcome.ts'
import { runBatch } from '../transaction/batch.ts'
import type { Engine } from '../transaction/engine.ts'
import { runHandler } from '../transaction/run-handler.ts'
import { unguardedOutcome } from './lease-only.ts'

/** Members of one shared transaction at most (design.md §9). */
const LARGEST_SLICE = 100

export interface InboxRun {
  readonly engine: Engine
  readonly leases: Leases | undefined
  readonly signals: StopSignals
  readonly onOutcome: (
    member: InFlightEvent,
    outcome: Outcome,
    handlerMs: number | undefined,
  ) => void
}

/** Steps 2 and 3 for events whose effects are in the inbox's database. Every member is settled once. */
export function runWithInbox(run: InboxRun, members: readonly InFlightEvent[]): Promise<unknown> {
  const { leases } = run
  return leases === undefined ? runClaimed(run, members) : runLeasing(run, leases, members)
}

function runClaimed(run: InboxRun, claimed: readonly InFlightEvent[]): Promise<unknown> {
  if (run.engine.options.transaction === 'batch') return runInSlices(run, claimed)
  const lanes = toLanes(claimed, ({ lane }) => lane)
  const [only] = lanes
  return only !== undefined && lanes.length === 1
    ? runLane(run, only)
    : Promise.all(lanes.map((lane) => runLane(run, lane)))
}

async function runInSlices(run: InboxRun, claimed: readonly InFlightEvent[]): Promise<void> {
  for (const slice of chunks(claimed, LARGEST_SLICE)) await withSlot(run.engine, slice, run)
}

function runLane(run: InboxRun, lane: readonly InFlightEvent[]): Promise<void> {
  return lane.length === 1 ? withSlot(run.engine, lane, run) : runInOrder(run, lane)
}

async function withSlot(
  engine: Engine,
  slice: readonly InFlightEvent[],
  run: InboxRun,
): Promise<void> {
  const { slots } = engine
  const release = slots.tryAcquire() ?? (await slots.acquire({ stop: run.signals.whenStopping }))
  if (release === undefined) {
    const outcome: Outcome = { kind: 'abandoned', reason: 'closing' }
    for (const member of slice) run.onOutcome(member, outcome, undefined)
    return
  }
  try {
    await runBatch(run, slice)
  } finally {
    release()
  }
}

/** One transaction per event, in delivery order; the lane stops at its first defer or abandon. */
async function runInOrder(run: InboxRun, lane: readonly InFlightEvent[]): Promise<void> {
  let stoppedBy: Outcome | undefined
  for (const member of lane) {
    if (stoppedBy !== undefined) {
      run.onOutcome(member, laneFollowerOutcome(stoppedBy), undefined)
      continue
    }
    const onOutcome: InboxRun['onOutcome'] = (event, outcome, handlerMs) => {
      if (stopsLane(outcome)) stoppedBy = outcome
      run.onOutcome(event, outcome, handlerMs)
    }
    await withSlot(run.engine, [member], { ...run, onOutcome })
  }
}

/** The fast path. A lease store that does not answer is no obstacle: Postgres decides. */
async function runLeasing(
  run: InboxRun,
  leases: Leases,
  members: readonly InFlightEvent[],
): Promise<unknown> {
  let claims: readonly Claimed[]
  try {
    claims = await claimLeases(leases, members)
  } catch {
    return runClaimed(run, members)
  }
  const entries = members.map(
    (member, index): Entry => ({
      member,
      claimed: claims[index] as Claimed,
    }),
  )
  const isWaiting = ({ claimed }: Entry): boolean => isHeldElsewhere(claimed)
  if (!entries.some(isWaiting)) return runClaimed(run, settleClaimed(run, entries))
  const lanes = toLanes(entries, ({ member }) => member.lane)
  const waiting = lanes.filter((lane) => lane.some(isWaiting))
  const free = lanes.filter((lane) => !waiting.includes(lane)).flat()
  return Promise.all([
    runClaimed(run, settleClaimed(run, free)),
    ...waiting.map((lane) => runWaiting(run, leases, lane)),
  ])
}

/** A member and what the lease store said of it. */
interface Entry {
  readonly member: InFlightEvent
  readonly claimed: Claimed
}

/** Settles what needs no run; answers the rest. */
function settleClaimed(run: InboxRun, entries: readonly Entry[]): readonly InFlightEvent[] {
  const running: InFlightEvent[] = []
  const stopped = new Map<string | undefined, Outcome>()
  for (const { member, claimed } of entries) {
    const before = stopped.get(member.lane)
    if (before !== undefined) settleFollower(run, { member, claimed }, before)
    else if (claimed.kind === 'run') running.push(claimed.member)
    // What the store has of it may be of a history that is lost: only the row says what the payload was.
    else if (claimed.kind === 'conflict') running.push(member)
    else {
      const { outcome } = claimed
      if (member.lane !== undefined && stopsLane(outcome)) stopped.set(member.lane, outcome)
      run.onOutcome(member, outcome, undefined)
    }
  }
  return running
}

function settleFollower(run: InboxRun, { member, claimed }: Entry, before: Outcome): void {
  const held = claimed.kind === 'run' ? claimed.member : member
  run.onOutcome(held, laneFollowerOutcome(before), undefined)
}

/** A lane of which another process has an event in hand: in order, with a wait for that one. */
async function runWaiting(run: InboxRun, leases: Leases, lane: readonly Entry[]): Promise<void> {
  let stoppedBy: Outcome | undefined
  const onOutcome: InboxRun['onOutcome'] = (event, outcome, handlerMs) => {
    if (stopsLane(outcome)) stoppedBy = outcome
    run.onOutcome(event, outcome, handlerMs)
  }
  const watched = { ...run, onOutcome }
  for (const entry of lane) {
    if (stoppedBy !== undefined) {
      settleFollower(run, entry, stoppedBy)
      continue
    }
    const claimed = await waitForHolder(leases, entry, run.signals)
    await runClaimed(watched, settleClaimed(watched, [{ member: entry.member, claimed }]))
  }
}

/** No key, by the user's policy no guard: the handler in a transaction of its own, without a claim. */
export async function runUnguarded(
  engine: Engine,
  member: InFlightEvent,
  signals: StopSignals,
): Promise<{ readonly outcome: Outcome; readonly handlerMs: number | undefined }> {
  const release = await engine.slots.acquire({ stop: signals.whenStopping })
  if (release === undefined || signals.isStopping()) {
    release?.()
    return { outcome: { kind: 'abandoned', reason: 'closing' }, handlerMs: undefined }
  }
  try {
    const { deadlineMs } = engine.options
    const claim = { kind: 'none' } as const
    const begun = await engine.session.begin({ claim, waitMs: 0, budgetMs: deadlineMs })
    if (begun.kind !== 'open') throw new Error('A transaction without a claim did not open.')
    return await inTransaction({ engine, member, signals }, begun.transaction)
  } catch (error) {
    engine.breaker.failed(error)
    const outcome: Outcome = {
      kind: 'store-down',
      delayMs: engine.heldBackoff.nextMs(member.event.id),
      error,
    }
    return { outcome, handlerMs: undefined }
  } finally {
    release()
  }
}

async function inTransaction(
  run: { readonly engine: Engine; readonly member: InFlightEvent; readonly signals: StopSignals },
  transaction: InboxTransaction<unknown>,
): Promise<{ readonly outcome: Outcome; readonly handlerMs: number | undefined }> {
  const { call, options } = run.engine
  const { deadlineMs, logger, runtime } = options
  const event = toGuardEvent(run.member, run.member.event.delivery.deliveryCount ?? 1)
  const end = await runHandler(
    { runtime, deadlineMs, drain: run.signals.drain, revoke: (error) => transaction.revoke(error) },
    (signal, deadlineAt) => {
      const context = { tx: transaction.tx, signal, deadlineAt, logger }
      return call.kind === 'single' ? call.handler(event, context) : call.handler([event], context)
    },
  )
  const { handlerMs } = end
  if (end.kind !== 'returned') {
    await transaction.rollback()
    return { outcome: unguardedOutcome(options, run.member, end), handlerMs }
  }
  const answer = await transaction.commit({ results: new Map(), recovered: [] })
  if (answer.kind === 'committed') return { outcome: { kind: 'unguarded' }, handlerMs }
  const outcome: Outcome =
    answer.kind === 'rolled-back'
      ? unguardedOutcome(options, run.member, { kind: 'threw', error: answer.error })
      : { kind: 'abandoned', reason: 'commit-unknown', error: answer.error }
  return { outcome, handlerMs }
}
