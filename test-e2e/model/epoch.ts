import type { Model, Step } from './explore.ts'

/**
 * How rows are removed other than by the sweep: a restore of data, a `delete` by hand.
 *
 * - `removal-only`: the history keeps its name.
 * - `then-bump`: the epoch is bumped after it, and consumers go on meanwhile.
 * - `bump-then`: the epoch is bumped before it.
 * - `stopped`: no name that was read before the bump is believed any more when consumers go on: they were stopped, or
 *   the store was away, for longer than a name is believed.
 */
export type Removal = 'removal-only' | 'then-bump' | 'bump-then' | 'stopped'

/**
 * When the mark of a done event is written.
 *
 * - `with-claim`: at once, in the epoch of its claim.
 * - `behind`: some time after the commit, in the epoch that was known before the transaction. Redis need not be asked.
 * - `behind-named-late`: the same, in the epoch that is known when it is written.
 * - `in-process`: no Redis, each guard remembers by itself, in the epoch that was known before the transaction.
 * - `in-process-named-late`: the same, in the epoch that is known when the commit was answered.
 */
export type Marking =
  | 'with-claim'
  | 'behind'
  | 'behind-named-late'
  | 'in-process'
  | 'in-process-named-late'

export interface EpochFaults {
  readonly removals: number
  readonly duplicates: number
  /** Redis loses everything. */
  readonly flushes: number
}

interface Guard {
  /** The epoch of the name that it read last; -1 before the first read. */
  readonly epoch: number
  /** It was read so recently that it is believed. */
  readonly isFresh: boolean
  /** What it is about to write: the mark of an event that it knows to be done, in the epoch of its claim. */
  readonly mark: number | undefined
  /** In a transaction, with the epoch that was known before it; -1 if none was. */
  readonly begun: number | undefined
  /** Marks that are written behind the commits of their events. */
  readonly pending: readonly number[]
  /** Epochs in which this guard itself remembers the event. */
  readonly own: readonly number[]
}

export interface EpochState {
  readonly hasRow: boolean
  readonly epoch: number
  /** Epochs in whose namespace Redis has a mark of the event. */
  readonly marks: readonly number[]
  readonly queue: number
  readonly guards: readonly Guard[]
  /** A removal in two parts: the second is still to come. */
  readonly next: 'bump' | 'remove' | undefined
  readonly left: EpochFaults
  readonly wrong?: string | undefined
}

const UNREAD: Guard = {
  ...{ epoch: -1, isFresh: false, mark: undefined, begun: undefined, pending: [], own: [] },
}

/** One event, two guards that believe a mark in Redis, or what they remember themselves, while the name of the history is fresh, and an operator (§7). */
export function epochs(
  removal: Removal,
  faults: EpochFaults,
  marking: Marking = 'with-claim',
): Model<EpochState> {
  return {
    initial: {
      ...{ hasRow: false, epoch: 0, marks: [], queue: 1, guards: [UNREAD, UNREAD] },
      ...{ next: undefined, left: faults },
    },
    next: (state) => [
      ...ofServers(state),
      ...ofOperator(state, removal),
      ...state.guards.flatMap((guard, index) =>
        marking === 'with-claim'
          ? ofGuard(state, { guard, index })
          : ofMarkingBehind(state, { guard, index }, marking),
      ),
    ],
    violation: ({ wrong }) => wrong,
    isEnd: ({ guards, hasRow, next, queue }) =>
      queue === 0 &&
      next === undefined &&
      hasRow &&
      guards.every(({ begun, mark, pending }) => {
        return mark === undefined && begun === undefined && pending.length === 0
      }),
  }
}

type Steps = Step<EpochState>[]

const spend = (state: EpochState, fault: keyof EpochFaults): EpochFaults => ({
  ...state.left,
  [fault]: state.left[fault] - 1,
})

function ofServers(state: EpochState): Steps {
  const steps: Steps = []
  if (state.left.duplicates > 0) {
    const after = { ...state, queue: state.queue + 1, left: spend(state, 'duplicates') }
    steps.push({ label: 'broker: another copy', state: after, isFault: true })
  }
  if (state.left.flushes > 0) {
    const after = { ...state, marks: [], left: spend(state, 'flushes') }
    steps.push({ label: 'Redis loses everything', state: after, isFault: true })
  }
  return steps
}

function ofOperator(state: EpochState, removal: Removal): Steps {
  const { left, next } = state
  if (next === 'bump') return [{ label: 'operator: bumps the epoch', state: bumped(state) }]
  if (next === 'remove') return [{ label: 'operator: removes the row', state: removed(state) }]
  if (left.removals === 0 || !state.hasRow) return []
  const begun = { ...state, left: spend(state, 'removals') }
  const step = (label: string, after: EpochState): Steps => [
    { label: `operator: ${label}`, state: after, isFault: true },
  ]
  switch (removal) {
    case 'removal-only':
      return step('removes the row', removed(begun))
    case 'then-bump':
      return step('removes the row', { ...removed(begun), next: 'bump' })
    case 'bump-then':
      return step('bumps the epoch', { ...bumped(begun), next: 'remove' })
    case 'stopped': {
      // A transaction is rolled back. Marks may still be on their way, and a process that stopped consuming still remembers.
      const guards = state.guards.map(({ own, pending }) => ({ ...UNREAD, own, pending }))
      const open = state.guards.filter((guard) => guard.begun !== undefined).length
      const after = removed(bumped(begun))
      return step('stops the consumers, removes the row and bumps the epoch', {
        ...{ ...after, queue: after.queue + open, guards },
      })
    }
    default:
      return removal satisfies never
  }
}

/** The message is to be processed again: it is put back, as after a restore its broker does. */
const removed = (state: EpochState): EpochState => ({
  ...state,
  ...{ hasRow: false, queue: state.queue + 1, next: undefined },
})

const bumped = (state: EpochState): EpochState => ({
  ...state,
  ...{ epoch: state.epoch + 1, next: undefined },
})

interface Placed {
  readonly guard: Guard
  readonly index: number
}

type To = (label: string, change: Partial<Guard>, rest?: Partial<EpochState>) => Step<EpochState>

const toOf =
  (state: EpochState, index: number): To =>
  (label, change, rest = {}) => {
    const guards = state.guards.map((one, at) => (at === index ? { ...one, ...change } : one))
    return { label: `G${index} ${label}`, state: { ...state, guards, ...rest } }
  }

const withMark = ({ marks }: EpochState, epoch: number): Partial<EpochState> =>
  epoch < 0 ? {} : { marks: [...new Set([...marks, epoch])].toSorted() }

/** A first delivery is not asked about, and what is done is remembered later. */
function ofMarkingBehind(state: EpochState, { guard, index }: Placed, marking: Marking): Steps {
  const isNamedLate = marking.endsWith('named-late')
  const isOwn = marking.startsWith('in-process')
  const to = toOf(state, index)
  const steps: Steps = [to('reads the name', { epoch: state.epoch, isFresh: true })]
  if (guard.isFresh) steps.push(to('has read the name too long ago', { isFresh: false }))
  for (const [at, noted] of guard.pending.entries()) {
    const pending = guard.pending.toSpliced(at, 1)
    const epoch = isNamedLate ? guard.epoch : noted
    if (isOwn) {
      steps.push(to('remembers', { pending, own: [...new Set([...guard.own, epoch])].toSorted() }))
    } else steps.push(to('writes a mark behind', { pending }, withMark(state, epoch)))
    steps.push(to('loses a mark', { pending }))
  }
  if (guard.begun !== undefined) {
    const { begun } = guard
    const pending = begun < 0 ? guard.pending : [...guard.pending, begun]
    steps.push(to('commits', { begun: undefined, pending }, { hasRow: true }))
    return steps
  }
  if (state.queue === 0) return steps
  const queue = state.queue - 1
  if (guard.isFresh && (isOwn ? guard.own : state.marks).includes(guard.epoch)) {
    const wrong = state.hasRow ? undefined : 'a false done: acked without an effect'
    steps.push(to(isOwn ? 'remembers it done' : 'asks Redis: done', {}, { queue, wrong }))
  }
  // However long ago the name was read: a history that has ended since never gets it back.
  steps.push(to('begins', { begun: guard.epoch }, { queue }))
  return steps
}

function ofGuard(state: EpochState, { guard, index }: Placed): Steps {
  const to = toOf(state, index)
  const steps: Steps = [to('reads the name', { epoch: state.epoch, isFresh: true })]
  if (guard.isFresh) steps.push(to('has read the name too long ago', { isFresh: false }))
  if (guard.mark !== undefined) {
    steps.push(to('writes the mark', { mark: undefined }, withMark(state, guard.mark)))
    return steps
  }
  if (state.queue === 0) return steps
  const queue = state.queue - 1
  const isMarked = guard.isFresh && state.marks.includes(guard.epoch)
  if (isMarked) {
    const wrong = state.hasRow ? undefined : 'a false done: acked without an effect'
    steps.push(to('claims: done in Redis', {}, { queue, wrong }))
    return steps
  }
  const mark = guard.epoch < 0 ? undefined : guard.epoch
  const what = state.hasRow ? 'finds it done in Postgres' : 'processes it'
  steps.push(to(what, { mark }, { queue, hasRow: true }))
  return steps
}
