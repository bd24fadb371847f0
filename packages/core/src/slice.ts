import { judge } from './known.ts'
import { overtaking } from './lanes.ts'
import { type Member, type Path, type Pending, toPending } from './member.ts'
import type { Outcome } from './outcome.ts'
import { fault, finish, finishAll, type Slice, type SliceRun } from './slice-state.ts'
import { runSplitting, SINGLE_WAIT_MS } from './split.ts'
import { putBack } from './verdict.ts'

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
  const heads: Pending[] = []
  for (const pending of members) {
    const { lane } = pending.member
    if (lane !== undefined) {
      const path = paths.get(lane) ?? pending.path
      paths.set(lane, path === pending.path ? path : 'blocked')
      if (path !== pending.path) continue
    }
    heads.push(pending)
  }
  return heads
}

async function takeStep(slice: Slice, part: Part): Promise<void> {
  const { alone } = slice.run.engine.options.runtime
  if (part.path === 'read') return read(slice, part.members)
  const isAlone = part.path === 'alone'
  const release = isAlone ? await alone.exclusive() : (alone.tryShared() ?? (await alone.shared()))
  try {
    if (slice.run.signals.isStopping()) return
    const ready =
      part.path === 'fresh' ? part.members : await inLaneOrder(slice, await prepare(slice, part))
    if (ready.length > 0) await runSplitting(slice, ready)
  } finally {
    release()
  }
}

/** Counts what must be counted before its run; the count comes directly before it. */
function prepare(slice: Slice, part: Part): Promise<readonly Pending[]> {
  switch (part.path) {
    case 'suspect':
      return countSuspects(slice, part.members)
    case 'due':
      return count(slice, part.members, 'together')
    case 'alone':
      return count(slice, part.members, 'alone')
    case 'fresh':
    case 'read':
      return Promise.resolve(part.members)
  }
}

/** What was counted does not overtake one of its lane that could not be: it is given back, and waits for it. */
async function inLaneOrder(slice: Slice, counted: readonly Pending[]): Promise<readonly Pending[]> {
  const early = overtaking(slice.pending, counted)
  if (early.length === 0) return counted
  await putBack(slice.run.engine, early)
  return counted.filter((pending) => !early.includes(pending))
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
