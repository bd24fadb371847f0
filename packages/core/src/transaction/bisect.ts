import { overtaking } from '../concurrency/lanes.ts'
import type { Pending } from '../model/in-flight-event.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { fault, finish, finishAll, finishDone, type Slice } from './batch-state.ts'
import { storeFailed } from './store-failed.ts'
import { hasStoreFailed, type PartEnd, type PartFailure, runPart } from './transaction.ts'
import { describe, giveBack, putBack, recordFailure } from './verdict.ts'

/** The wait for a row of an event whose slice was held up already, ms. */
export const SINGLE_WAIT_MS = 50
/** A row of many, ms. Shorter ones end in waits that are nobody's: for the table to grow, under many inserts. */
const LEAST_WAIT_MS = 25
/** A serialization failure of one event is retried this often before it is a failure. */
const MOST_SERIALIZATION_RETRIES = 5
const SERIALIZATION_PAUSE_MS = 20
/** After this many failing members, or serialization failures of a shared transaction, each event has its own. */
const FAILURES_BEFORE_SINGLES = 2

interface Work {
  readonly slice: Slice
  queue: (readonly Pending[])[]
  failures: number
  serializations: number
  /** Set once the slice was held up by a row that nobody can name. */
  singleWaitMs: number | undefined
}

/**
 * Runs members in one transaction; optimistic, without savepoints. When a member fails, everything rolls back and
 * the parts are run again in order; no verdict counts until its event stood alone in its transaction, because a
 * neighbour may have swallowed a failed statement (design.md §6, *One transaction for many*).
 */
export async function runSplitting(slice: Slice, members: readonly Pending[]): Promise<void> {
  const work: Work = {
    slice,
    queue: [members],
    failures: 0,
    serializations: 0,
    singleWaitMs: undefined,
  }
  for (let part = work.queue.shift(); part !== undefined; part = work.queue.shift()) {
    // A lane may have stopped since this part was made.
    const stopped = part.filter((pending) => !slice.pending.has(pending))
    if (stopped.length > 0) await giveBack(slice.run.engine, stopped, 'given-back')
    const open = part.filter((pending) => !stopped.includes(pending))
    // And one of them may have an earlier one of its lane that could not be counted, or is to be read again.
    const early = overtaking(slice.pending, open)
    if (early.length > 0) await putBack(slice.run.engine, early)
    const next = open.filter((pending) => !early.includes(pending))
    if (next.length === 0) continue
    if (slice.run.signals.isStopping()) {
      await abandon(slice, next)
      continue
    }
    await runOnce(work, next)
  }
}

async function abandon(slice: Slice, members: readonly Pending[]): Promise<void> {
  await giveBack(slice.run.engine, members, 'given-back')
  finishAll(slice, members, { kind: 'abandoned', reason: 'closing' })
}

async function runOnce(work: Work, members: readonly Pending[]): Promise<void> {
  const { slice } = work
  const { engine, signals } = slice.run
  const perRow = Math.max(LEAST_WAIT_MS, engine.options.claimWaitMs / members.length)
  const waitMs = work.singleWaitMs ?? perRow
  let end: PartEnd
  try {
    end = await runPart(engine, { members, waitMs, signals })
  } catch (error) {
    // Errors before the handler began count nothing.
    await giveBack(engine, members, 'given-back')
    return fault(slice, members, error)
  }
  if (!hasStoreFailed(end)) engine.breaker.succeeded()
  if (end.kind === 'committed') {
    readAgain(end.unclaimed)
    return commit(slice, end)
  }
  try {
    await follow(work, members, end)
  } catch (error) {
    fault(slice, members, error)
  }
}

async function follow(
  work: Work,
  members: readonly Pending[],
  end: Exclude<PartEnd, { kind: 'committed' }>,
): Promise<void> {
  switch (end.kind) {
    case 'held':
      return held(work, members)
    case 'none':
      readAgain(members)
      return finishDone(work.slice, members, end.done)
    case 'late':
      // Their neighbours took the time, or a freeze: what is counted is counted anew, directly before its run.
      await giveBack(work.slice.run.engine, members, 'no-verdict')
      return readAgain(members)
    case 'overtaking':
      readAgain(end.unclaimed)
      return putBack(work.slice.run.engine, end.claimed)
    case 'failed':
      readAgain(end.unclaimed)
      return failed(work, end)
  }
}

/** A row stayed held. With several rows nobody knows which: they go on one event per transaction. */
function held(work: Work, members: readonly Pending[]): void {
  const { slice } = work
  if (members.length === 1) {
    for (const pending of members) {
      const delayMs = slice.run.engine.deferrals.nextMs(pending.member.event.id)
      finish(slice, pending, { kind: 'in-progress', delayMs })
    }
    return
  }
  work.singleWaitMs = SINGLE_WAIT_MS
  toSingles(work, members)
}

function readAgain(members: readonly Pending[]): void {
  for (const pending of members) {
    pending.path = 'read'
    pending.counted = undefined
  }
}

function commit(slice: Slice, end: Extract<PartEnd, { kind: 'committed' }>): void {
  for (const pending of end.claimed) {
    const { event } = pending.member
    slice.run.engine.deferrals.forget(event.id)
    const attempt = pending.counted?.attempt ?? 1
    finish(slice, pending, { kind: 'processed', attempt, result: end.results.get(event.id) })
  }
}

type Failed = Extract<PartEnd, { kind: 'failed' }>

async function failed(work: Work, end: Failed): Promise<void> {
  const { failure, claimed, transaction } = end
  const only = claimed.length === 1 ? claimed[0] : undefined
  if (failure.kind === 'handler' && only !== undefined) {
    return conclude(work.slice, only, { transaction, error: failure.error })
  }
  await transaction.rollback()
  switch (failure.kind) {
    case 'handler':
      return splitAt(work, claimed, failure.pending)
    case 'budget':
      return splitAt(work, claimed, undefined)
    case 'serialization':
      return serialization(work, end, failure.error)
    case 'ended':
      return ended(work, end, failure)
    default:
      return withoutVerdict(work, end, failure)
  }
}

async function conclude(
  slice: Slice,
  pending: Pending,
  end: Parameters<typeof recordFailure>[2],
): Promise<void> {
  const outcome = await recordFailure(slice.run.engine, pending, end)
  if (outcome === undefined) readAgain([pending])
  else finish(slice, pending, outcome)
}

function splitAt(work: Work, claimed: readonly Pending[], at: Pending | undefined): void {
  work.failures += 1
  if (work.failures >= FAILURES_BEFORE_SINGLES) {
    toSingles(work, claimed)
    return
  }
  if (at === undefined) {
    const middle = Math.ceil(claimed.length / 2)
    requeue(work, [claimed.slice(0, middle), claimed.slice(middle)])
    return
  }
  const index = claimed.indexOf(at)
  requeue(work, [claimed.slice(0, index), [at], claimed.slice(index + 1)])
}

/** Everything that is left has its own transaction from now on. */
function toSingles(work: Work, members: readonly Pending[]): void {
  work.queue = [members, ...work.queue].flat().map((pending) => [pending])
}

function requeue(work: Work, parts: readonly (readonly Pending[])[]): void {
  work.queue.unshift(...parts)
}

async function serialization(work: Work, end: Failed, error: unknown): Promise<void> {
  const { engine } = work.slice.run
  const only = end.claimed.length === 1 ? end.claimed[0] : undefined
  if (only !== undefined) {
    only.serializationFailures += 1
    if (only.serializationFailures > MOST_SERIALIZATION_RETRIES) {
      return conclude(work.slice, only, { error })
    }
  } else {
    work.serializations += 1
    if (work.serializations >= FAILURES_BEFORE_SINGLES) return toSingles(work, end.claimed)
  }
  await pause(work, SERIALIZATION_PAUSE_MS * (only?.serializationFailures ?? 1))
  engine.options.logger.debug({ members: end.claimed.length }, 'serialization failure; run again')
  requeue(work, [end.claimed])
}

function pause({ slice }: Work, longestMs: number): Promise<void> {
  const { runtime } = slice.run.engine.options
  return new Promise((resolve) => {
    runtime.setTimer(resolve, runtime.random() * longestMs)
  })
}

/** Committed by the handler or rolled back by it: what the rows say decides, for those that ran. */
async function ended(
  work: Work,
  end: Failed,
  failure: Extract<PartFailure, { kind: 'ended' }>,
): Promise<void> {
  const { slice } = work
  const { engine } = slice.run
  const ran = end.claimed.slice(0, failure.ran)
  const left = end.claimed.slice(failure.ran)
  const ids = end.claimed.map(({ member }) => member.event.id)
  engine.options.logger.error(
    { err: describe(failure.error), events: ids },
    'a handler ended the transaction',
  )
  await end.transaction.retract(left.map(({ member }) => member.event))
  const known = await engine.session.classify(ran.map(({ member }) => member.event))
  const again = ran.filter((pending, index) => {
    const state = known[index]
    if (state?.kind !== 'done') return true
    const attempt = pending.counted?.attempt ?? 1
    finish(slice, pending, { kind: 'processed', attempt, result: state.result })
    return false
  })
  const [only] = again
  if (only !== undefined && end.claimed.length === 1) {
    return conclude(slice, only, { error: failure.error })
  }
  toSingles(work, [...again, ...left])
}

/** Ends that say nothing about the events themselves. */
async function withoutVerdict(
  work: Work,
  end: Failed,
  failure: Exclude<PartFailure, { kind: 'handler' | 'budget' | 'serialization' | 'ended' }>,
): Promise<void> {
  const { slice } = work
  const { claimed } = end
  const { engine } = slice.run
  switch (failure.kind) {
    case 'store':
      return storeFailed(slice, end, failure.error)
    case 'drained':
      if (failure.ended) return abandon(slice, claimed)
      return finishAll(slice, claimed, { kind: 'abandoned', reason: 'closing', stillRunning: true })
    case 'not-replicated':
      return finishAll(slice, claimed, abandonedUnknown(failure.error))
    case 'commit-unknown':
      return claimAgain(work, claimed, failure.error)
    case 'lease-lost': {
      const { pending, error } = failure
      await giveBack(engine, [pending], 'given-back')
      finish(slice, pending, { kind: 'abandoned', reason: 'lease-lost', error })
      requeue(work, [claimed.filter((other) => other !== pending)])
    }
  }
}

function abandonedUnknown(error: unknown): Outcome {
  return { kind: 'abandoned', reason: 'commit-unknown', error }
}

/** Never guess: once, on another connection. What then finds its row done was committed. */
async function claimAgain(work: Work, claimed: readonly Pending[], error: unknown): Promise<void> {
  // Where COMMIT arrived, the row is done and this changes nothing.
  await giveBack(work.slice.run.engine, claimed, 'no-verdict')
  for (const pending of claimed) {
    if (pending.commitUnknown) {
      finish(work.slice, pending, abandonedUnknown(error))
      continue
    }
    pending.commitUnknown = true
    pending.path = pending.counted === undefined ? 'fresh' : 'read'
  }
  requeue(work, [claimed.filter(({ path }) => path === 'fresh')])
}
