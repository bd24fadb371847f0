import { type Member, type Path, type Pending, toPending } from '../model/in-flight-event.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { fault, finish, finishAll, type Slice, type SliceRun } from './batch-state.ts'
import { runSplitting, SINGLE_WAIT_MS } from './bisect.ts'
import { judge } from './stored-state.ts'

/** Readings of one event before it is left to its redelivery: each needs another process to have changed it. */
const MOST_READS = 4

/**
 * Brings every member to an outcome. Members whose rows can share a transaction run in one, in delivery order;
 * of a lane, only the part goes on whose predecessors are done. With one member this is *a transaction each*.
 */
export async function runSlice(run: SliceRun, members: readonly Member[]): Promise<void> {
  const slice: Slice = { run, pending: new Set(members.map(toPending)) }
  while (slice.pending.size > 0) {
    if (run.signals.isStopping()) {
      finishAll(slice, [...slice.pending], { kind: 'abandoned', reason: 'closing' })
      return
    }
    const part = nextPart(slice)
    try {
      await takeStep(slice, part)
    } catch (error) {
      fault(slice, part.members, error)
    }
  }
}

interface Part {
  readonly path: Path
  readonly members: readonly Pending[]
}

const PRIORITY: readonly Path[] = ['fresh', 'suspect', 'read', 'due', 'alone']

/** Of each lane the first members that stand alike; of those, the kind that goes first. */
function nextPart(slice: Slice): Part {
  const heads = laneHeads(slice.pending)
  const path = PRIORITY.find((wanted) => heads.some((pending) => pending.path === wanted))
  const members = heads.filter((pending) => pending.path === path)
  const alone = path === 'alone'
  return { path: path ?? 'fresh', members: alone ? members.slice(0, 1) : members }
}

function laneHeads(members: Iterable<Pending>): readonly Pending[] {
  const paths = new Map<string, Path | 'blocked'>()
  return [...members].filter(({ member: { lane }, path }) => {
    if (lane === undefined) return true
    const first = paths.get(lane) ?? path
    paths.set(lane, first === path ? path : 'blocked')
    return first === path
  })
}

async function takeStep(slice: Slice, { path, members }: Part): Promise<void> {
  const { alone } = slice.run.engine.options.runtime
  if (path === 'read') return read(slice, members)
  const isAlone = path === 'alone'
  const release = isAlone ? await alone.exclusive() : (alone.tryShared() ?? (await alone.shared()))
  try {
    if (slice.run.signals.isStopping()) return
    const ready = path === 'fresh' ? members : await prepare(slice, path, members)
    await runSplitting(slice, ready)
  } finally {
    release()
  }
}

/** Counts what must be counted before its run; the count comes directly before it. */
function prepare(
  slice: Slice,
  path: Exclude<Path, 'fresh' | 'read'>,
  members: readonly Pending[],
): Promise<readonly Pending[]> {
  switch (path) {
    case 'suspect':
      return countSuspects(slice, members)
    case 'due':
      return count(slice, members, 'together')
    case 'alone':
      return count(slice, members, 'alone')
  }
}

async function read(slice: Slice, members: readonly Pending[]): Promise<void> {
  const { engine } = slice.run
  // What this process itself has not given back yet would look like the run of another one.
  await engine.unreleased.flush()
  const known = await engine.session.classify(members.map(({ member }) => member.event))
  engine.breaker.succeeded()
  for (const [index, pending] of members.entries()) {
    pending.reads += 1
    const next = await judge(engine, pending, known[index] ?? { kind: 'absent' })
    if (next.kind === 'outcome') finish(slice, pending, next.outcome)
    else if (pending.reads > MOST_READS) finish(slice, pending, leftAlone(slice, pending))
    else pending.path = next.path
  }
}

function leftAlone(slice: Slice, { member }: Pending): Outcome {
  return { kind: 'in-progress', delayMs: slice.run.engine.deferrals.nextMs(member.event.id) }
}

async function countSuspects(
  slice: Slice,
  members: readonly Pending[],
): Promise<readonly Pending[]> {
  const { options } = slice.run.engine
  const counted = await suspect(slice, members, options.claimWaitMs)
  if (counted !== 'held') return counted
  const ready: Pending[] = []
  for (const pending of members) {
    // Which one is held nobody says: each is tried by itself.
    const one = members.length === 1 ? 'held' : await suspect(slice, [pending], SINGLE_WAIT_MS)
    if (one === 'held') finish(slice, pending, leftAlone(slice, pending))
    else ready.push(...one)
  }
  return ready
}

async function suspect(
  slice: Slice,
  members: readonly Pending[],
  waitMs: number,
): Promise<readonly Pending[] | 'held'> {
  const { options, session } = slice.run.engine
  const countedAtMs = options.runtime.monotonic()
  const events = members.map(({ member }) => member.event)
  const answer = await session.suspect(events, waitMs)
  if (answer.kind === 'held') return 'held'
  return members.filter((pending, index) => {
    const counted = answer.counted[index]
    if (counted === undefined) pending.path = 'read'
    else pending.counted = { ...counted, countedAtMs }
    return counted !== undefined
  })
}

async function count(
  slice: Slice,
  members: readonly Pending[],
  run: 'together' | 'alone',
): Promise<readonly Pending[]> {
  const { options, session } = slice.run.engine
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
      finish(slice, pending, { kind: 'dead', reason, attempt, ref })
    } else if (answer?.kind === 'held') finish(slice, pending, leftAlone(slice, pending))
    else pending.path = 'read'
    return false
  })
}
