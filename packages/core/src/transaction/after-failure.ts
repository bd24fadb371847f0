import { outcomeWithoutVerdict, storeLoss } from '../handler/run-outcome.ts'
import { describeError, SealError, StoreUnavailableError } from '../model/errors.ts'
import type { Release } from '../model/runtime.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { type Batch, deferAll, endAll, endEvent } from './batch-state.ts'
import type { Engine } from './engine.ts'
import type { PendingEvent } from './pending-event.ts'
import type { TransactionEnd, TransactionFailure } from './transaction-end.ts'
import { recordDeferral, recordFailure, releaseRuns } from './verdict.ts'

/** Wait for the row of one event whose batch was blocked by a held row, ms. */
export const SINGLE_WAIT_MS = 50

/** The rest of a batch that runs in parts. Mutable, and owned by one run of the batch. */
export interface BisectQueue {
  readonly batch: Batch
  readonly hold: Release
  parts: (readonly PendingEvent[])[]
  failures: number
  serializations: number
  /** Set once the batch was blocked by a held row. */
  singleWaitMs: number | undefined
}

/** Each remaining event gets its own transaction from now on. */
export function toSingles(queue: BisectQueue, members: readonly PendingEvent[]): void {
  queue.parts = [members, ...queue.parts].flat().map((pending) => [pending])
}

export function requeue(queue: BisectQueue, parts: readonly (readonly PendingEvent[])[]): void {
  queue.parts.unshift(...parts)
}

/** Marks the events to be read again, so that their rows decide what to do. */
export function readAgain(members: readonly PendingEvent[]): void {
  for (const pending of members) {
    pending.phase = 'read'
    pending.counted = undefined
  }
}

export async function abandon(batch: Batch, members: readonly PendingEvent[]): Promise<void> {
  await releaseRuns(batch.engine, members, 'given-back')
  endAll(batch, members, { kind: 'abandoned', reason: 'closing' })
}

/** Retries of one event after serialization failures. The next serialization failure counts as a failed attempt. */
const MOST_SERIALIZATION_RETRIES = 5
const SERIALIZATION_PAUSE_MS = 20
/**
 * After this many failed members, or serialization failures of a shared transaction, each event gets its own
 * transaction.
 */
const FAILURES_BEFORE_SINGLES = 2

type Failed = Extract<TransactionEnd, { kind: 'failed' }>

/** Handles a failed transaction: its members run again in parts, or each gets its outcome. */
export async function afterFailure(queue: BisectQueue, end: Failed): Promise<void> {
  const { failure, claimed, transaction } = end
  const only = claimed.length === 1 ? claimed[0] : undefined
  if (failure.kind === 'handler' && only !== undefined) {
    return endFailed(queue.batch, only, { transaction, error: failure.error })
  }
  if (failure.kind === 'deferred') return afterDeferral(queue, end, failure)
  await transaction.rollback()
  switch (failure.kind) {
    case 'handler':
      return splitAt(queue, claimed, failure.pending)
    case 'budget':
      return splitAt(queue, claimed, undefined)
    case 'settings':
      keepApart(queue.batch.engine)
      return toSingles(queue, claimed)
    case 'serialization':
      return serialization(queue, end, failure.error)
    case 'ended':
      return afterOwnEnd(queue, end, failure)
    default:
      return withoutVerdict(queue, end, failure)
  }
}

/** How long the events of a guard whose handler changes settings get transactions of their own, ms. */
const APART_MS = 60_000

function keepApart({ options, sharing }: Engine): void {
  const nowMs = options.runtime.monotonic()
  if (sharing.apartUntilMs === undefined) {
    options.logger.info(
      { consumer: options.consumer },
      'a handler changes settings of its session, so each event gets a transaction of its own',
    )
  }
  sharing.apartUntilMs = nowMs + APART_MS
}

/** The event that asked for it stood in company, but its word is about itself alone. The others run again. */
async function afterDeferral(
  queue: BisectQueue,
  { claimed, transaction }: Failed,
  { delayMs, pending }: Extract<TransactionFailure, { kind: 'deferred' }>,
): Promise<void> {
  const { batch } = queue
  const deferred = pending === undefined ? claimed : [pending]
  const [only] = claimed
  if (only !== undefined && claimed.length === 1) {
    return endFailed(batch, only, { transaction, delayMs })
  }
  await transaction.rollback()
  for (const each of deferred) await endFailed(batch, each, { delayMs })
  requeue(queue, [claimed.filter((each) => !deferred.includes(each))])
}

/** What is recorded of a run: its failure, or that it comes back later. */
type Recorded =
  | Parameters<typeof recordFailure>[2]
  | (Pick<Parameters<typeof recordFailure>[2], 'transaction'> & { readonly delayMs: number })

async function endFailed(batch: Batch, pending: PendingEvent, end: Recorded): Promise<void> {
  const { engine } = batch
  let outcome: Outcome | undefined
  try {
    outcome =
      'delayMs' in end
        ? await recordDeferral(engine, pending, end)
        : await recordFailure(engine, pending, end)
  } catch (error) {
    // An open transaction would hold the event's row until the process ends.
    await end.transaction?.rollback()
    // The store failed with the handler's statement or after it, so this run has no verdict.
    if (error instanceof StoreUnavailableError) await releaseRuns(engine, [pending], 'no-verdict')
    throw error
  }
  if (outcome === undefined) readAgain([pending])
  else endEvent(batch, pending, outcome)
}

function splitAt(
  queue: BisectQueue,
  claimed: readonly PendingEvent[],
  at: PendingEvent | undefined,
): void {
  queue.failures += 1
  if (queue.failures >= FAILURES_BEFORE_SINGLES) {
    toSingles(queue, claimed)
    return
  }
  if (at === undefined) {
    const middle = Math.ceil(claimed.length / 2)
    requeue(queue, [claimed.slice(0, middle), claimed.slice(middle)])
    return
  }
  const index = claimed.indexOf(at)
  requeue(queue, [claimed.slice(0, index), [at], claimed.slice(index + 1)])
}

async function serialization(queue: BisectQueue, end: Failed, error: unknown): Promise<void> {
  const { engine } = queue.batch
  const only = end.claimed.length === 1 ? end.claimed[0] : undefined
  if (only !== undefined) {
    only.serializationFailures += 1
    if (only.serializationFailures > MOST_SERIALIZATION_RETRIES) {
      return endFailed(queue.batch, only, { error })
    }
  } else {
    queue.serializations += 1
    if (queue.serializations >= FAILURES_BEFORE_SINGLES) return toSingles(queue, end.claimed)
  }
  await pause(queue, SERIALIZATION_PAUSE_MS * (only?.serializationFailures ?? 1))
  engine.options.logger.debug(
    { members: end.claimed.length },
    'serialization failure, the members run again',
  )
  requeue(queue, [end.claimed])
}

function pause({ batch }: BisectQueue, longestMs: number): Promise<void> {
  const { runtime } = batch.engine.options
  return new Promise((resolve) => {
    runtime.setTimer(resolve, runtime.random() * longestMs)
  })
}

/** The handler committed or rolled back the transaction itself. The rows decide about the members that ran. */
async function afterOwnEnd(
  queue: BisectQueue,
  end: Failed,
  failure: Extract<TransactionFailure, { kind: 'ended' }>,
): Promise<void> {
  const { batch } = queue
  const { engine } = batch
  const ran = end.claimed.slice(0, failure.ran)
  const left = end.claimed.slice(failure.ran)
  const ids = end.claimed.map(({ member }) => member.event.id)
  engine.options.logger.error(
    { err: describeError(failure.error), events: ids },
    'a handler ended the transaction: remove its COMMIT or ROLLBACK',
  )
  await end.transaction.retract(left.map(({ member }) => member.event))
  const known = await engine.session.classify(ran.map(({ member }) => member.event))
  const again = ran.filter((pending, index) => {
    const state = known[index]
    if (state?.kind !== 'done') return true
    const attempt = pending.counted?.attempt ?? 1
    endEvent(batch, pending, { kind: 'processed', attempt, result: state.result })
    return false
  })
  const [only] = again
  if (only !== undefined && end.claimed.length === 1) {
    return endFailed(batch, only, { error: failure.error })
  }
  toSingles(queue, [...again, ...left])
}

/** Handles failures that say nothing about the events themselves. */
async function withoutVerdict(
  queue: BisectQueue,
  end: Failed,
  failure: Exclude<
    TransactionFailure,
    { kind: 'handler' | 'deferred' | 'budget' | 'settings' | 'serialization' | 'ended' }
  >,
): Promise<void> {
  const { batch } = queue
  const { claimed } = end
  const { engine } = batch
  switch (failure.kind) {
    case 'store':
      return storeFailed(batch, end, failure.error)
    case 'drained':
      if (failure.ended) await releaseRuns(engine, claimed, 'given-back')
      return endAll(batch, claimed, outcomeWithoutVerdict(failure))
    case 'not-replicated':
      return endAll(batch, claimed, outcomeWithoutVerdict(failure))
    case 'commit-unknown':
      return claimAgain(queue, claimed, failure.error)
    case 'lease-lost': {
      const { pending } = failure
      await releaseRuns(engine, [pending], 'given-back')
      endEvent(batch, pending, outcomeWithoutVerdict(failure))
      requeue(queue, [claimed.filter((other) => other !== pending)])
    }
  }
}

/**
 * Claims the events once more on another connection after an unknown commit. An event whose row is done was committed.
 */
async function claimAgain(
  queue: BisectQueue,
  claimed: readonly PendingEvent[],
  error: unknown,
): Promise<void> {
  // If COMMIT arrived, the row is done and this call changes nothing.
  await releaseRuns(queue.batch.engine, claimed, 'no-verdict')
  for (const pending of claimed) {
    if (pending.commitUnknown) {
      endEvent(queue.batch, pending, outcomeWithoutVerdict({ kind: 'commit-unknown', error }))
      continue
    }
    pending.commitUnknown = true
    pending.phase = pending.counted === undefined ? 'fresh' : 'read'
  }
  requeue(queue, [claimed.filter(({ phase }) => phase === 'fresh')])
}

async function storeFailed(batch: Batch, end: Failed, error: unknown): Promise<void> {
  const { engine } = batch
  // Nothing was committed for want of a key, and no event dies of that.
  const as = error instanceof SealError ? 'given-back' : 'no-verdict'
  await releaseRuns(engine, end.claimed, as)
  deferAll(batch, end.claimed, storeLoss(engine.options, error))
}
