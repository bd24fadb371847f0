import { ALONE_WAIT_MS } from '../concurrency/alone-lock.ts'
import { overtaking } from '../concurrency/lanes.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { Release } from '../model/runtime.ts'
import {
  abandon,
  afterFailure,
  type BisectQueue,
  readAgain,
  SINGLE_WAIT_MS,
  toSingles,
} from './after-failure.ts'
import {
  type Batch,
  type BatchRun,
  deferHeld,
  endAll,
  endDuplicates,
  endEvent,
  failBatch,
} from './batch-state.ts'
import { type Aboard, LEAST_WAIT_MS } from './chain.ts'
import { mayShare } from './engine.ts'
import { laneOf, type PendingEvent, type Phase, toPendingEvent } from './pending-event.ts'
import type { PartRequest } from './running.ts'
import { fromStoredState } from './stored-state.ts'
import { runTransaction } from './transaction.ts'
import { hasStoreFailed, type TransactionEnd } from './transaction-end.ts'
import { releaseRuns, releaseUnstarted } from './verdict.ts'

/** Maximum reads of one event before it is deferred. Each further read means that another process changed the row. */
const MOST_READS = 4

/**
 * Brings every member to an outcome. Members whose rows can share a transaction run in one transaction, in delivery
 * order. A member of a lane runs only after its predecessors are done. A batch of one member is the mode `transaction:
 * 'each'`.
 */
export async function runBatch(
  run: BatchRun,
  members: readonly InFlightEvent[],
  { aboard, slot }: RunStart,
): Promise<void> {
  const batch: Batch = { ...run, aboard, slot, pending: new Set(members.map(toPendingEvent)) }
  try {
    while (batch.pending.size > 0) {
      if (run.signals.isStopping()) {
        endAll(batch, [...batch.pending], { kind: 'abandoned', reason: 'closing' })
        return
      }
      const { members, phase } = nextStep(batch)
      let hold: Release | undefined
      try {
        if (phase === 'read') await read(batch, members)
        else {
          hold = holdNow(batch, phase) ?? (await waitForTurn(batch, phase, members))
          if (hold === undefined) continue
          const ready = phase === 'fresh' ? members : await prepare(batch, phase, members)
          await runBisecting(batch, ready, hold)
        }
      } catch (error) {
        failBatch(batch, members, error)
      } finally {
        hold?.()
      }
    }
  } finally {
    aboard?.hold()
    if (aboard !== undefined) await aboard.leave()
    batch.slot()
  }
}

/** What a run has from its start. */
export interface RunStart {
  /** Released at the end. */
  readonly slot: Release
  readonly aboard?: Aboard | undefined
}

interface Step {
  readonly phase: Phase
  readonly members: readonly PendingEvent[]
}

/** What runs first. */
const RANK = {
  fresh: 0,
  suspect: 1,
  read: 2,
  due: 3,
  alone: 4,
} as const satisfies Readonly<Record<Phase, number>>

/**
 * Takes the first members of each lane that have the same phase. Of these, the phase with the highest priority
 * runs next.
 */
function nextStep(batch: Batch): Step {
  let phase: Phase = 'alone'
  let members: PendingEvent[] = []
  /** The phase of the first members of each lane. */
  let lanes: Map<string, Phase | 'blocked'> | undefined
  for (const pending of batch.pending) {
    const { lane } = pending.member
    if (lane !== undefined) {
      lanes ??= new Map()
      const first = lanes.get(lane) ?? pending.phase
      const isHead = first === pending.phase
      lanes.set(lane, isHead ? first : 'blocked')
      if (!isHead) continue
    }
    if (RANK[pending.phase] < RANK[phase]) {
      phase = pending.phase
      members = [pending]
    } else if (pending.phase === phase) members.push(pending)
  }
  return { phase, members: phase === 'alone' ? members.slice(0, 1) : members }
}

/** The lock that runs share with events that must run alone, if it is free. */
function holdNow({ aboard, engine }: Batch, phase: Phase): Release | undefined {
  if (phase === 'fresh' && aboard?.isOpen === true) return aboard.hold
  return phase === 'alone' ? undefined : engine.options.runtime.alone.tryShared()
}

/** Undefined: the events did not get the lock. They have outcomes then, or the run is being stopped. */
async function waitForTurn(
  batch: Batch,
  phase: Phase,
  members: readonly PendingEvent[],
): Promise<Release | undefined> {
  const { options } = batch.engine
  const { alone } = options.runtime
  const { isStopping, whenStopping: stop } = batch.signals
  const hold =
    phase === 'alone'
      ? await alone.exclusive({ stop, limit: { runtime: options.runtime, ms: ALONE_WAIT_MS } })
      : await alone.shared({ stop })
  if (isStopping()) {
    hold?.()
    return undefined
  }
  if (hold === undefined) deferHeld(batch, members, 'waiting-alone')
  return hold
}

/** Counts the attempts that must be counted before the run. The count comes directly before the run. */
function prepare(
  batch: Batch,
  phase: Exclude<Phase, 'fresh' | 'read'>,
  members: readonly PendingEvent[],
): Promise<readonly PendingEvent[]> {
  switch (phase) {
    case 'suspect':
      return countSuspects(batch, members)
    case 'due':
      return count(batch, members, 'together')
    case 'alone':
      return count(batch, members, 'alone')
  }
}

async function read(batch: Batch, members: readonly PendingEvent[]): Promise<void> {
  const { engine } = batch
  // A run that this process has not released yet would look like a run of another process.
  await engine.lateReleases.flush()
  const known = await engine.session.classify(members.map(({ member }) => member.event))
  engine.breaker.succeeded()
  for (const [index, pending] of members.entries()) {
    pending.reads += 1
    const next = await fromStoredState(engine, pending, known[index] ?? { kind: 'absent' })
    if (next.kind === 'outcome') endEvent(batch, pending, next.outcome)
    else if (pending.reads > MOST_READS) {
      deferHeld(batch, [pending], 'running-elsewhere')
    } else pending.phase = next.phase
  }
}

async function countSuspects(
  batch: Batch,
  members: readonly PendingEvent[],
): Promise<readonly PendingEvent[]> {
  const { options } = batch.engine
  const counted = await suspect(batch, members, options.claimWaitMs)
  if (counted !== 'held') return counted
  const ready: PendingEvent[] = []
  for (const pending of members) {
    // The inbox does not say which row is held, so each event is tried alone.
    const one = members.length === 1 ? 'held' : await suspect(batch, [pending], SINGLE_WAIT_MS)
    if (one === 'held') deferHeld(batch, [pending], 'held-by-row')
    else ready.push(...one)
  }
  return ready
}

async function suspect(
  batch: Batch,
  members: readonly PendingEvent[],
  waitMs: number,
): Promise<readonly PendingEvent[] | 'held'> {
  const { options, session } = batch.engine
  const countedAtMs = options.runtime.monotonic()
  const events = members.map(({ member }) => member.event)
  const answer = await session.suspect(events, waitMs)
  if (answer.kind === 'held') return 'held'
  return members.filter((pending, index) => {
    const counted = answer.counted[index]
    if (counted === undefined) pending.phase = 'read'
    else pending.counted = { ...counted, countedAtMs }
    return counted !== undefined
  })
}

async function count(
  batch: Batch,
  members: readonly PendingEvent[],
  run: 'together' | 'alone',
): Promise<readonly PendingEvent[]> {
  const { options, session } = batch.engine
  const countedAtMs = options.runtime.monotonic()
  const answers = await session.count(
    members.map(({ member }) => member.event),
    run,
  )
  return members.filter((pending, index) => {
    const answer = answers[index]
    const { event } = pending.member
    if (answer?.kind === 'counted') {
      const { token, attempt } = answer
      pending.counted = { event, token, attempt, countedAtMs }
      return true
    }
    if (answer?.kind === 'buried') {
      const ref = { kind: 'event', id: event.id } as const
      const { reason, attempt } = answer
      endEvent(batch, pending, { kind: 'dead', reason, attempt, ref })
    } else if (answer?.kind === 'held') deferHeld(batch, [pending], 'held-by-row')
    else pending.phase = 'read'
    return false
  })
}

/**
 * Runs members in one transaction, optimistically and without savepoints. When a member fails, the transaction is
 * rolled back and its parts run again in order. A verdict counts only for an event that was alone in its transaction,
 * because another member may have swallowed a failed statement (design.md §6, *One transaction for many*).
 *
 * @param hold - Of the lock that the runs share with events that must run alone.
 */
async function runBisecting(
  batch: Batch,
  members: readonly PendingEvent[],
  hold: Release,
): Promise<void> {
  const queue: BisectQueue = {
    batch,
    hold,
    parts:
      members.length === 1 || mayShare(batch.engine)
        ? [members]
        : members.map((pending) => [pending]),
    failures: 0,
    serializations: 0,
    singleWaitMs: undefined,
  }
  for (let part = queue.parts.shift(); part !== undefined; part = queue.parts.shift()) {
    const next = mayStart(batch, part) ? part : await startable(batch, part)
    if (next.length === 0) continue
    if (batch.signals.isStopping()) {
      await abandon(batch, next)
      continue
    }
    let end: TransactionEnd | undefined
    try {
      end = await runTransaction(batch.engine, requestOf(queue, next))
    } catch (error) {
      // Errors before the handler started count no attempt.
      await releaseRuns(batch.engine, next, 'given-back')
      failBatch(batch, next, error)
    }
    const following = end && afterRun(queue, next, end)
    if (following !== undefined) await following
  }
}

/** Whether every event of the part has no outcome yet, and overtakes no event of its lane. */
function mayStart(batch: Batch, part: readonly PendingEvent[]): boolean {
  for (const pending of part) if (!batch.pending.has(pending)) return false
  // With all of them, no event is left that another could overtake.
  return part.length === batch.pending.size || overtaking(batch.pending, part, laneOf).length === 0
}

/** Gives the other events of the part back. */
async function startable(
  batch: Batch,
  part: readonly PendingEvent[],
): Promise<readonly PendingEvent[]> {
  // A lane may have stopped since this part was made.
  const stopped = part.filter((pending) => !batch.pending.has(pending))
  if (stopped.length > 0) await releaseRuns(batch.engine, stopped, 'given-back')
  const open = without(part, stopped)
  // An earlier event of the lane may not have been counted, or must be read again. The later events then wait.
  const early = overtaking(batch.pending, open, laneOf)
  if (early.length > 0) await releaseUnstarted(batch.engine, early)
  return without(open, early)
}

function without(
  all: readonly PendingEvent[],
  some: readonly PendingEvent[],
): readonly PendingEvent[] {
  return some.length === 0 ? all : all.filter((pending) => !some.includes(pending))
}

function requestOf(
  { batch, hold, singleWaitMs }: BisectQueue,
  members: readonly PendingEvent[],
): PartRequest {
  const { engine, signals } = batch
  const perRow = Math.max(LEAST_WAIT_MS, engine.options.claimWaitMs / members.length)
  return {
    members,
    waitMs: singleWaitMs ?? perRow,
    signals,
    hold,
    driver: batch,
    aboard: batch.aboard,
  }
}

function afterRun(
  queue: BisectQueue,
  members: readonly PendingEvent[],
  end: TransactionEnd,
): Promise<void> | undefined {
  const { batch } = queue
  if (end.kind !== 'committed') {
    if (!hasStoreFailed(end)) batch.engine.breaker.succeeded()
    return afterTransaction(queue, members, end).catch((error: unknown) =>
      failBatch(batch, members, error),
    )
  }
  batch.engine.breaker.succeeded()
  if (end.unclaimed.length > 0) readAgain(end.unclaimed)
  endCommitted(batch, end)
  return undefined
}

async function afterTransaction(
  queue: BisectQueue,
  members: readonly PendingEvent[],
  end: Exclude<TransactionEnd, { kind: 'committed' }>,
): Promise<void> {
  switch (end.kind) {
    case 'held':
      return held(queue, members)
    case 'none':
      readAgain(members)
      return endDuplicates(queue.batch, members, end.done)
    case 'late':
      // Other members or a frozen process used up the time. These members are counted again, directly before their next
      // run.
      await releaseRuns(queue.batch.engine, members, 'no-verdict')
      return readAgain(members)
    case 'overtaking':
      readAgain(end.unclaimed)
      return releaseUnstarted(queue.batch.engine, end.claimed)
    case 'failed':
      readAgain(end.unclaimed)
      return afterFailure(queue, end)
  }
}

function endCommitted(batch: Batch, end: Extract<TransactionEnd, { kind: 'committed' }>): void {
  for (const pending of end.claimed) {
    const { event } = pending.member
    batch.engine.heldBackoff.forget(event.id)
    const attempt = pending.counted?.attempt ?? 1
    endEvent(batch, pending, { kind: 'processed', attempt, result: end.results.get(event.id) })
  }
}

/** A row or the table stayed locked. If there are several rows, each event runs in its own transaction. */
async function held(queue: BisectQueue, members: readonly PendingEvent[]): Promise<void> {
  const { batch } = queue
  if (members.length === 1) {
    // Its handler has not started, so no attempt is counted.
    await releaseRuns(batch.engine, members, 'given-back')
    deferHeld(batch, members, 'held-by-row')
    return
  }
  queue.singleWaitMs = SINGLE_WAIT_MS
  toSingles(queue, members)
}
