import { overtaking } from '../concurrency/lanes.ts'
import type { Release } from '../model/runtime.ts'
import { afterFailure } from './after-failure.ts'
import { type Batch, conclude, concludeDuplicates, concludeHeld, failBatch } from './batch-state.ts'
import { abandon, type BisectQueue, readAgain, SINGLE_WAIT_MS, toSingles } from './bisect-queue.ts'
import type { Engine } from './engine.ts'
import { laneOf, type PendingEvent } from './pending-event.ts'
import type { PartRequest } from './running.ts'
import { runTransaction } from './transaction.ts'
import { hasStoreFailed, type TransactionEnd } from './transaction-end.ts'
import { giveBack, giveBackUnstarted } from './verdict.ts'

/**
 * Minimum wait for each row of a batch, ms. Under many inserts, a shorter wait would end while the table is being
 * extended.
 */
const LEAST_WAIT_MS = 25

/**
 * Runs members in one transaction, optimistically and without savepoints. When a member fails, the transaction is
 * rolled back and its parts run again in order. A verdict counts only for an event that was alone in its transaction,
 * because another member may have swallowed a failed statement (design.md §6, *One transaction for many*).
 *
 * @param hold - Of the lock that the runs share with events that must run alone. Released at the end.
 */
export async function runBisecting(
  batch: Batch,
  members: readonly PendingEvent[],
  hold: Release,
): Promise<void> {
  const queue: BisectQueue = {
    batch,
    hold,
    parts:
      members.length === 1 || mayShare(batch.run.engine)
        ? [members]
        : members.map((pending) => [pending]),
    failures: 0,
    serializations: 0,
    singleWaitMs: undefined,
  }
  try {
    for (let part = queue.parts.shift(); part !== undefined; part = queue.parts.shift()) {
      const next = mayStart(batch, part) ? part : await startable(batch, part)
      if (next.length === 0) continue
      if (batch.run.signals.isStopping()) {
        await abandon(batch, next)
        continue
      }
      let end: TransactionEnd | undefined
      try {
        end = await runTransaction(batch.run.engine, requestOf(queue, next))
      } catch (error) {
        // Errors before the handler started count no attempt.
        await giveBack(batch.run.engine, next, 'given-back')
        failBatch(batch, next, error)
      }
      const following = end && ended(queue, next, end)
      if (following !== undefined) await following
    }
  } finally {
    hold()
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
  if (stopped.length > 0) await giveBack(batch.run.engine, stopped, 'given-back')
  const open = without(part, stopped)
  // An earlier event of the lane may not have been counted, or must be read again. The later events then wait.
  const early = overtaking(batch.pending, open, laneOf)
  if (early.length > 0) await giveBackUnstarted(batch.run.engine, early)
  return without(open, early)
}

function without(
  all: readonly PendingEvent[],
  some: readonly PendingEvent[],
): readonly PendingEvent[] {
  return some.length === 0 ? all : all.filter((pending) => !some.includes(pending))
}

/** A handler for whole batches sees its own settings only, so its events are never kept apart. */
function mayShare({ options, sharing: { apartUntilMs } }: Engine): boolean {
  return apartUntilMs === undefined || options.runtime.monotonic() >= apartUntilMs
}

function requestOf(
  { batch, hold, singleWaitMs }: BisectQueue,
  members: readonly PendingEvent[],
): PartRequest {
  const { engine, signals } = batch.run
  const perRow = Math.max(LEAST_WAIT_MS, engine.options.claimWaitMs / members.length)
  return { members, waitMs: singleWaitMs ?? perRow, signals, hold }
}

function ended(
  queue: BisectQueue,
  members: readonly PendingEvent[],
  end: TransactionEnd,
): Promise<void> | undefined {
  const { batch } = queue
  if (end.kind !== 'committed') {
    if (!hasStoreFailed(end)) batch.run.engine.breaker.succeeded()
    return afterTransaction(queue, members, end).catch((error: unknown) =>
      failBatch(batch, members, error),
    )
  }
  batch.run.engine.breaker.succeeded()
  if (end.unclaimed.length > 0) readAgain(end.unclaimed)
  concludeCommitted(batch, end)
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
      return concludeDuplicates(queue.batch, members, end.done)
    case 'late':
      // Other members or a frozen process used up the time. These members are counted again, directly before their next
      // run.
      await giveBack(queue.batch.run.engine, members, 'no-verdict')
      return readAgain(members)
    case 'overtaking':
      readAgain(end.unclaimed)
      return giveBackUnstarted(queue.batch.run.engine, end.claimed)
    case 'failed':
      readAgain(end.unclaimed)
      return afterFailure(queue, end)
  }
}

function concludeCommitted(
  batch: Batch,
  end: Extract<TransactionEnd, { kind: 'committed' }>,
): void {
  for (const pending of end.claimed) {
    const { event } = pending.member
    batch.run.engine.heldBackoff.forget(event.id)
    batch.run.engine.seenDone.add(event.id)
    const attempt = pending.counted?.attempt ?? 1
    conclude(batch, pending, { kind: 'processed', attempt, result: end.results.get(event.id) })
  }
}

/** A row or the table stayed locked. If there are several rows, each event runs in its own transaction. */
async function held(queue: BisectQueue, members: readonly PendingEvent[]): Promise<void> {
  const { batch } = queue
  if (members.length === 1) {
    // Its handler has not started, so no attempt is counted.
    await giveBack(batch.run.engine, members, 'given-back')
    concludeHeld(batch, members, 'held-by-row')
    return
  }
  queue.singleWaitMs = SINGLE_WAIT_MS
  toSingles(queue, members)
}
