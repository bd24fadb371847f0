import { ALONE_WAIT_MS } from '../concurrency/alone-lock.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { Release } from '../model/runtime.ts'
import {
  type Batch,
  type BatchRun,
  conclude,
  concludeAll,
  concludeHeld,
  failBatch,
} from './batch-state.ts'
import { runBisecting } from './bisect.ts'
import { SINGLE_WAIT_MS } from './bisect-queue.ts'
import { type PendingEvent, type Standing, toPendingEvent } from './pending-event.ts'
import { fromStoredState } from './stored-state.ts'

/** Maximum reads of one event before it is deferred. Each further read means that another process changed the row. */
const MOST_READS = 4

/**
 * Brings every member to an outcome. Members whose rows can share a transaction run in one transaction, in delivery
 * order. A member of a lane runs only after its predecessors are done. A batch of one member is the mode `transaction:
 * 'each'`.
 *
 * @param slot - Released at the end.
 */
export async function runBatch(
  run: BatchRun,
  members: readonly InFlightEvent[],
  slot: Release,
): Promise<void> {
  try {
    const batch: Batch = { run, pending: new Set(members.map(toPendingEvent)) }
    while (batch.pending.size > 0) {
      if (run.signals.isStopping()) {
        concludeAll(batch, [...batch.pending], { kind: 'abandoned', reason: 'closing' })
        return
      }
      const part = nextStep(batch)
      try {
        await takeStep(batch, part)
      } catch (error) {
        failBatch(batch, part.members, error)
      }
    }
  } finally {
    slot()
  }
}

interface Step<Now extends Standing> {
  readonly standing: Now
  readonly members: readonly PendingEvent[]
}

/** A step that runs handlers. */
type RunStep = Step<Exclude<Standing, 'read'>>
type NextStep = RunStep | Step<'read'>

/** What runs first. */
const RANK = {
  fresh: 0,
  suspect: 1,
  read: 2,
  due: 3,
  alone: 4,
} as const satisfies Readonly<Record<Standing, number>>

/**
 * Takes the first members of each lane that have the same standing. Of these, the standing with the highest priority
 * runs next.
 */
function nextStep(batch: Batch): NextStep {
  let standing: Standing = 'alone'
  let members: PendingEvent[] = []
  /** The standing of the first members of each lane. */
  let lanes: Map<string, Standing | 'blocked'> | undefined
  for (const pending of batch.pending) {
    const { lane } = pending.member
    if (lane !== undefined) {
      lanes ??= new Map()
      const first = lanes.get(lane) ?? pending.standing
      const isHead = first === pending.standing
      lanes.set(lane, isHead ? first : 'blocked')
      if (!isHead) continue
    }
    if (RANK[pending.standing] < RANK[standing]) {
      standing = pending.standing
      members = [pending]
    } else if (pending.standing === standing) members.push(pending)
  }
  return { standing, members: standing === 'alone' ? members.slice(0, 1) : members }
}

function takeStep(batch: Batch, step: NextStep): Promise<void> {
  if (step.standing === 'read') return read(batch, step.members)
  const { alone } = batch.run.engine.options.runtime
  const hold = step.standing === 'alone' ? undefined : alone.tryShared()
  return hold === undefined ? waitForTurn(batch, step) : runHeld(batch, step, hold)
}

async function waitForTurn(batch: Batch, step: RunStep): Promise<void> {
  const { options } = batch.run.engine
  const { alone } = options.runtime
  const { isStopping, whenStopping: stop } = batch.run.signals
  const hold =
    step.standing === 'alone'
      ? await alone.exclusive({ stop, limit: { runtime: options.runtime, ms: ALONE_WAIT_MS } })
      : await alone.shared({ stop })
  if (isStopping()) hold?.()
  else if (hold === undefined) concludeHeld(batch, step.members, 'waiting-alone')
  else await runHeld(batch, step, hold)
}

function runHeld(batch: Batch, { standing, members }: RunStep, hold: Release): Promise<void> {
  return standing === 'fresh'
    ? runBisecting(batch, members, hold)
    : prepareAndRun(batch, { standing, members }, hold)
}

type CountedStep = Step<Exclude<Standing, 'fresh' | 'read'>>

async function prepareAndRun(
  batch: Batch,
  { standing, members }: CountedStep,
  hold: Release,
): Promise<void> {
  try {
    await runBisecting(batch, await prepare(batch, standing, members), hold)
  } finally {
    hold()
  }
}

/** Counts the attempts that must be counted before the run. The count comes directly before the run. */
function prepare(
  batch: Batch,
  standing: CountedStep['standing'],
  members: readonly PendingEvent[],
): Promise<readonly PendingEvent[]> {
  switch (standing) {
    case 'suspect':
      return countSuspects(batch, members)
    case 'due':
      return count(batch, members, 'together')
    case 'alone':
      return count(batch, members, 'alone')
  }
}

async function read(batch: Batch, members: readonly PendingEvent[]): Promise<void> {
  const { engine } = batch.run
  // A run that this process has not released yet would look like a run of another process.
  await engine.lateReleases.flush()
  const known = await engine.session.classify(members.map(({ member }) => member.event))
  engine.breaker.succeeded()
  for (const [index, pending] of members.entries()) {
    pending.reads += 1
    const next = await fromStoredState(engine, pending, known[index] ?? { kind: 'absent' })
    if (next.kind === 'outcome') conclude(batch, pending, next.outcome)
    else if (pending.reads > MOST_READS) {
      concludeHeld(batch, [pending], 'running-elsewhere')
    } else pending.standing = next.standing
  }
}

async function countSuspects(
  batch: Batch,
  members: readonly PendingEvent[],
): Promise<readonly PendingEvent[]> {
  const { options } = batch.run.engine
  const counted = await suspect(batch, members, options.claimWaitMs)
  if (counted !== 'held') return counted
  const ready: PendingEvent[] = []
  for (const pending of members) {
    // The inbox does not say which row is held, so each event is tried alone.
    const one = members.length === 1 ? 'held' : await suspect(batch, [pending], SINGLE_WAIT_MS)
    if (one === 'held') concludeHeld(batch, [pending], 'held-by-row')
    else ready.push(...one)
  }
  return ready
}

async function suspect(
  batch: Batch,
  members: readonly PendingEvent[],
  waitMs: number,
): Promise<readonly PendingEvent[] | 'held'> {
  const { options, session } = batch.run.engine
  const countedAtMs = options.runtime.monotonic()
  const events = members.map(({ member }) => member.event)
  const answer = await session.suspect(events, waitMs)
  if (answer.kind === 'held') return 'held'
  return members.filter((pending, index) => {
    const counted = answer.counted[index]
    if (counted === undefined) pending.standing = 'read'
    else pending.counted = { ...counted, countedAtMs }
    return counted !== undefined
  })
}

async function count(
  batch: Batch,
  members: readonly PendingEvent[],
  run: 'together' | 'alone',
): Promise<readonly PendingEvent[]> {
  const { options, session } = batch.run.engine
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
      conclude(batch, pending, { kind: 'dead', reason, attempt, ref })
    } else if (answer?.kind === 'held') concludeHeld(batch, [pending], 'held-by-row')
    else pending.standing = 'read'
    return false
  })
}
