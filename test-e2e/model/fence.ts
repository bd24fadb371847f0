import type { Model, Step } from './explore.ts'
import {
  type FenceFaults,
  type FenceRow,
  type FenceRules,
  type FenceState,
  type Owner,
  offsets,
  type Place,
  type PlaceRun,
  RECORDS,
} from './fence-state.ts'

type Steps = Step<FenceState>[]

/** Two workers and one partition with three records, some of which may be marks. */
export function fence(
  rules: FenceRules,
  faults: FenceFaults,
  marks: readonly number[] = [],
): Model<FenceState> {
  const none = Array.from({ length: RECORDS }, () => 0)
  return {
    initial: {
      row: { epoch: 0, generation: 0, next: 0, open: [] },
      ...{ tx: undefined, rows: [none.map(() => '-')], effects: [none] },
      ...{ workers: [undefined, undefined], assigned: undefined, committed: 0, left: faults },
      marks,
    },
    next: (state) => [
      ...ofKafka(state, rules),
      ...ofServer(state),
      ...state.workers.flatMap((owner, index) =>
        owner === undefined ? [] : ofOwner(state, rules, { owner, index }),
      ),
    ],
    violation,
    isEnd: ({ assigned, row, tx, workers }) => {
      const owner = assigned === undefined ? undefined : workers[assigned]
      const isIdle = owner !== undefined && owner.run === undefined && tx === undefined
      const isClosed = row.next === RECORDS && row.open.length === 0
      return isIdle && isClosed && owner.settled.length === RECORDS
    },
  }
}

function violation({ effects, marks, row, rows }: FenceState): string | undefined {
  if (effects.flat().some((times) => times > 1)) return 'two effects'
  const states = rows[row.generation] ?? []
  const times = effects[row.generation] ?? []
  const isDone = (offset: number): boolean => offset < row.next && !row.open.includes(offset)
  const isLost = (offset: number): boolean =>
    times[offset] === 0 && states[offset] !== 'x' && !marks.includes(offset)
  if ([...times.keys()].some((offset) => isDone(offset) && isLost(offset))) return 'skipped'
  return states.some((one, offset) => one === 'x' && times[offset] === 1)
    ? 'a dead record has an effect'
    : undefined
}

const withAt = <Value>(all: readonly Value[], at: number, value: Value): readonly Value[] =>
  all.map((one, index) => (index === at ? value : one))

const spent = (left: FenceFaults, fault: keyof FenceFaults): FenceFaults => ({
  ...left,
  [fault]: left[fault] - 1,
})

function ofKafka(state: FenceState, rules: FenceRules): Steps {
  const { assigned, left, marks, row, tx, workers } = state
  const steps: Steps = []
  // The claim is an update: it waits for the transaction of another owner.
  if (tx === undefined) {
    for (const index of workers.keys()) {
      const isZombie = assigned !== undefined && assigned !== index && left.zombie > 0
      const isFree = assigned === undefined || (assigned === index && workers[index] === undefined)
      if (!isFree && !isZombie) continue
      const claimed = { ...row, epoch: row.epoch + 1 }
      const from = rules.seeks ? Math.min(row.next, ...row.open) : state.committed
      const owner: Owner = { ...claimed, settled: plus(doneOf(row), marks), from, run: undefined }
      const after = {
        ...state,
        row: claimed,
        assigned: index,
        workers: withAt(workers, index, owner),
        left: isZombie ? spent(left, 'zombie') : left,
      }
      steps.push({ label: `W${index} claims the partition`, state: after, isFault: isZombie })
    }
    if (left.reset > 0) steps.push(reset(state))
  }
  if (left.ahead > 0 && state.committed < RECORDS) {
    const after = { ...state, committed: state.committed + 1, left: spent(left, 'ahead') }
    steps.push({ label: "Kafka's offset is moved ahead", state: after, isFault: true })
  }
  return steps
}

const doneOf = ({ next, open }: Place): readonly number[] =>
  offsets().filter((offset) => offset < next && !open.includes(offset))

function reset(state: FenceState): Step<FenceState> {
  const { effects, left, row, rows } = state
  const after: FenceState = {
    ...state,
    row: { epoch: row.epoch + 1, generation: row.generation + 1, next: 0, open: [] },
    rows: [...rows, offsets().map(() => '-')],
    effects: [...effects, offsets().map(() => 0)],
    left: spent(left, 'reset'),
  }
  return { label: 'an operator resets the partition', state: after, isFault: true }
}

function ofServer(state: FenceState): Steps {
  const { tx } = state
  if (tx?.isOrphan !== true) return []
  return [
    { label: 'the server commits', state: committed(state) },
    { label: 'the server rolls back', state: { ...state, tx: undefined } },
  ]
}

function committed(state: FenceState): FenceState {
  const { effects, row, tx } = state
  if (tx === undefined) return state
  const of = effects[tx.generation] ?? []
  const more = of.map((times, offset) => (tx.members.includes(offset) ? times + 1 : times))
  return {
    ...state,
    row: { ...row, ...tx.after },
    effects: withAt(effects, tx.generation, more),
    tx: undefined,
  }
}

interface Turn {
  readonly owner: Owner
  readonly index: number
}

function ofOwner(state: FenceState, rules: FenceRules, turn: Turn): Steps {
  const { index, owner } = turn
  const { left, tx, workers } = state
  const steps: Steps = []
  const to = (
    label: string,
    next: Owner | undefined,
    rest: Partial<FenceState> = {},
    fault?: keyof FenceFaults,
  ): void => {
    if (fault !== undefined && left[fault] === 0) return
    const after = { ...state, ...rest, workers: withAt(workers, index, next) }
    const changed = fault === undefined ? after : { ...after, left: spent(left, fault) }
    steps.push({ label: `W${index} ${label}`, state: changed, isFault: fault !== undefined })
  }
  const isHolding = tx?.worker === index && !tx.isOrphan
  const assigned = state.assigned === index ? undefined : state.assigned
  to('dies', undefined, { tx: isHolding ? undefined : tx, assigned }, 'die')
  if (isHolding)
    to('dies at its COMMIT', undefined, { tx: { ...tx, isOrphan: true }, assigned }, 'die')
  const { run } = owner
  if (run === undefined) {
    // Only an operator's reset needs it. Another owner is found at the next write.
    if (state.row.epoch !== owner.epoch) to('is restarted', undefined)
    if (tx === undefined) {
      begin(state, rules, { ...turn, to })
      if (rules.closes) close(state, rules, { ...turn, to })
    }
    byRow(state, rules, { ...turn, to })
  } else if (run.at === 'open') {
    const done = { ...owner, ...run.after, settled: plus(owner.settled, run.members) }
    if (isHolding) {
      to('commits', { ...done, run: undefined }, committed(state))
      const excepts = { ...owner, run: { ...run, at: 'excepts' } as const }
      to('has a handler that fails', excepts, { tx: undefined }, 'fail')
      to('hears nothing of its COMMIT', excepts, { tx: { ...tx, isOrphan: true } }, 'unknown')
    }
  } else if (tx === undefined) except(state, rules, { ...turn, run, to })
  return steps
}

type To = (
  label: string,
  next: Owner | undefined,
  rest?: Partial<FenceState>,
  fault?: keyof FenceFaults,
) => void

const plus = (some: readonly number[], more: readonly number[]): readonly number[] =>
  [...new Set([...some, ...more])].toSorted()

const minus = (some: readonly number[], less: readonly number[]): readonly number[] =>
  some.filter((one) => !less.includes(one))

/** Whether a write of this owner changes the row. */
const matches = (row: FenceRow, rules: FenceRules, owner: Owner, old: number): boolean =>
  (!rules.epoch || row.epoch === owner.epoch) && (!rules.comparesOld || row.next === old)

/** Records that have no rows share a transaction, which moves the row on. One may wait because its lane does. */
function begin(
  state: FenceState,
  rules: FenceRules,
  { index, owner, to }: Turn & { to: To },
): void {
  const first = Math.max(owner.next, owner.from)
  for (const members of [[first], [first, first + 1], [first + 1]]) {
    const last = members.at(-1) ?? first
    if (last >= RECORDS || members.some((offset) => state.marks.includes(offset))) continue
    const after = passing(state, rules, owner, members)
    const run: PlaceRun = { at: 'open', members, old: owner.next, after }
    if (matches(state.row, rules, owner, owner.next)) {
      const { generation } = owner
      const tx = { worker: index, generation, members, after, isOrphan: false }
      to(`begins ${members}`, { ...owner, run }, { tx })
    } else to('is fenced', undefined)
  }
}

function passing(
  { marks }: FenceState,
  rules: FenceRules,
  owner: Owner,
  members: readonly number[],
): Place {
  const next = Math.max(...members) + 1
  const others = minus(offsets(), plus(members, marks))
  const waiting = others.filter((offset) => offset >= owner.next && offset < next)
  const before = rules.forgetsSettled ? minus(owner.open, owner.settled) : []
  return { next, open: plus(before, rules.keepsWaiting ? waiting : []) }
}

/** Up to the first record that is not settled, nothing has to be known any more. */
function close(
  { row }: FenceState,
  rules: FenceRules,
  { owner, to }: Turn & { readonly to: To },
): void {
  const { settled } = owner
  const below = minus(offsets(), settled)[0] ?? RECORDS
  const low = rules.closesBelow ? below : Math.max(...settled) + 1
  const after = {
    next: Math.max(owner.next, low),
    open: owner.open.filter((offset) => offset >= low),
  }
  if (after.next === owner.next && after.open.length === owner.open.length) return
  if (matches(row, rules, owner, owner.next)) {
    to('writes what is settled', { ...owner, ...after }, { row: { ...row, ...after } })
  } else to('is fenced', undefined)
}

/** The records of a run without an answer, or with a failure, get rows: unless the run was committed after all. */
function except(
  state: FenceState,
  rules: FenceRules,
  { owner, run, to }: Turn & { readonly run: PlaceRun; readonly to: To },
): void {
  const { row } = state
  const after = { next: run.after.next, open: plus(run.after.open, run.members) }
  if (run.at === 'half') {
    if (rules.epoch && row.epoch !== owner.epoch) to('is fenced', undefined)
    else {
      to(
        'writes its exceptions',
        { ...owner, ...after, run: undefined },
        { row: { ...row, ...after } },
      )
    }
  } else if (matches(row, rules, owner, run.old)) {
    if (rules.exceptionsInside) {
      to(
        `makes exceptions of ${run.members}`,
        { ...owner, ...after, run: undefined },
        {
          row: { ...row, ...after },
        },
      )
    } else {
      const passed = { ...row, next: after.next }
      to(`passes ${run.members}`, { ...owner, run: { ...run, at: 'half' } }, { row: passed })
    }
  } else if (row.epoch === owner.epoch) {
    const { next, open } = row
    const settled = plus(owner.settled, doneOf(row))
    to('finds its run committed', { ...owner, next, open, settled, run: undefined })
  } else to('is fenced', undefined)
}

/** Exceptions are run as ever, by their rows. */
function byRow(state: FenceState, rules: FenceRules, { owner, to }: Turn & { to: To }): void {
  const { effects, rows } = state
  const { generation } = owner
  const states = rows[generation] ?? []
  for (const offset of minus(owner.open, owner.settled)) {
    if (offset < owner.from) continue
    const settled = { ...owner, settled: plus(owner.settled, [offset]) }
    const one = states[offset] ?? '-'
    const set = (value: 'w' | 'd' | 'x'): Pick<FenceState, 'rows'> => ({
      rows: withAt(rows, generation, withAt(states, offset, value)),
    })
    if (rules.looksAtRows && (one === 'd' || one === 'x')) to(`finds ${offset} ended`, settled)
    else {
      const of = effects[generation] ?? []
      const more = withAt(of, offset, (of[offset] ?? 0) + 1)
      to(`runs ${offset} by its row`, settled, {
        ...set('d'),
        effects: withAt(effects, generation, more),
      })
      if (one === 'w') to(`buries ${offset}`, settled, set('x'), 'fail')
      else to(`fails with ${offset}`, owner, set('w'), 'fail')
    }
  }
}
