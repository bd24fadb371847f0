import type { Model, Step } from './explore.ts'

/** The rules by which a dead letter goes back to its queue. A world leaves one of them out, to show what it is for. */
export interface RequeueRules {
  /** The event is freed before its message is sent. */
  readonly freesFirst: boolean
  /** The message stays until the broker has confirmed it. */
  readonly keepsMessage: boolean
  /** Only the owner of the token deletes the message. */
  readonly comparesToken: boolean
  /** A run that is given back leaves the row of an event whose requeue is not confirmed. */
  readonly releaseKeeps: boolean
}

/** How often each fault may happen. */
export interface RequeueFaults {
  readonly requeue: number
  readonly crash: number
  /** A call is given up, and the broker may take the message at any later time. */
  readonly hang: number
  readonly refuse: number
  /** An operator is so slow that the right is over before the call. */
  readonly slow: number
  /** A run dies again, is given back, or its process is killed. */
  readonly die: number
  readonly giveBack: number
  readonly kill: number
  /** The broker delivers a message once more that was settled long ago; nobody will bring it again. */
  readonly late: number
  readonly replay: number
}

interface Operator {
  readonly at: 'idle' | 'sends' | 'confirms' | 'gives up'
  /** Its token is the one in the row. */
  readonly isOwner: boolean
}

export interface RequeueState {
  readonly row: 'absent' | 'dead' | 'waiting' | 'running' | 'done'
  /** The row has its reason: it is a dead letter that operators see. */
  readonly isOpen: boolean
  readonly hasMessage: boolean
  readonly parked: boolean
  readonly hasRight: boolean
  /** Copies at the broker, and calls that it may still take. */
  readonly queue: number
  readonly calls: number
  readonly operators: readonly Operator[]
  /** What a worker runs: a copy of the queue, a late one, or the stored message. */
  readonly runs: 'nothing' | 'copy' | 'late' | 'stored'
  readonly effects: number
  readonly left: RequeueFaults
}

const IDLE: Operator = { at: 'idle', isOwner: false }
type Steps = Step<RequeueState>[]

/** One dead letter, two operators, one worker and a queue. */
export function requeueing(rules: RequeueRules, faults: RequeueFaults): Model<RequeueState> {
  return {
    initial: {
      ...{ row: 'dead', isOpen: true, hasMessage: true, parked: false, hasRight: false },
      ...{ queue: 0, calls: 0, operators: [IDLE, IDLE], runs: 'nothing', effects: 0, left: faults },
    },
    next: (state) => [
      ...state.operators.flatMap((_, index) => ofOperator(state, rules, index)),
      ...ofQueue(state),
      ...ofWorker(state, rules),
      ...ofTime(state),
    ],
    violation: ({ effects, hasMessage, isOpen, row }) => {
      if (effects > 1) return 'two effects'
      return isOpen && !hasMessage && row !== 'done'
        ? 'a dead letter without its message'
        : undefined
    },
    // An operator decides about what is listed.
    isEnd: ({ calls, isOpen, operators, queue, row, runs }) =>
      queue + calls === 0 &&
      runs === 'nothing' &&
      operators.every(({ at }) => at === 'idle') &&
      (row === 'done' || isOpen),
  }
}

const spent = (state: RequeueState, fault: keyof RequeueFaults): RequeueFaults => ({
  ...state.left,
  [fault]: state.left[fault] - 1,
})

function withOperator(state: RequeueState, index: number, operator: Operator): RequeueState {
  const operators = state.operators.map((one, at) => (at === index ? operator : one))
  return { ...state, operators }
}

/** The row has another token now, or none. */
const withoutOwner = ({
  operators,
}: RequeueState): Pick<RequeueState, 'operators' | 'hasRight'> => ({
  operators: operators.map((one) => ({ ...one, isOwner: false })),
  hasRight: false,
})

function ofOperator(state: RequeueState, rules: RequeueRules, index: number): Steps {
  const operator = state.operators[index] ?? IDLE
  const { left } = state
  const name = `O${index}`
  const steps: Steps = []
  const to = (
    label: string,
    after: RequeueState,
    at: Operator,
    fault?: keyof RequeueFaults,
  ): void => {
    if (fault !== undefined && left[fault] === 0) return
    const changed = fault === undefined ? after : { ...after, left: spent(state, fault) }
    const next = withOperator(changed, index, at)
    steps.push({ label: `${name} ${label}`, state: next, isFault: fault !== undefined })
  }
  if (operator.at === 'idle') {
    if (!state.isOpen || state.hasRight || !['dead', 'waiting'].includes(state.row)) return steps
    const other = { ...state, ...withoutOwner(state) }
    const freed = rules.freesFirst ? ({ row: 'waiting' } as const) : {}
    const hasMessage = rules.keepsMessage
    const taken = { ...other, ...freed, parked: false, hasRight: true, hasMessage }
    const isOpen = rules.keepsMessage
    to('frees it', { ...taken, isOpen }, { at: 'sends', isOwner: true }, 'requeue')
    const replayed = { ...other, row: 'waiting', parked: true, isOpen: false } as const
    to('replays it', replayed, IDLE, 'replay')
    return steps
  }
  to('crashes', state, IDLE, 'crash')
  if (operator.at === 'sends') {
    const { isOwner } = operator
    to('sends it', { ...state, queue: state.queue + 1 }, { at: 'confirms', isOwner })
    to('is refused', state, { at: 'gives up', isOwner }, 'refuse')
    const hanging = { ...state, calls: state.calls + 1 }
    to('gives the call up', hanging, { at: 'gives up', isOwner }, 'hang')
    to('crashes in its call', hanging, IDLE, 'crash')
  } else if (operator.at === 'gives up') {
    to('gives the right back', operator.isOwner ? { ...state, hasRight: false } : state, IDLE)
  } else {
    const isMine = !rules.comparesToken || operator.isOwner
    const isThere = ['waiting', 'running', 'dead'].includes(state.row)
    const freed = !rules.freesFirst && state.row === 'dead' ? ({ row: 'waiting' } as const) : {}
    const gone = { ...state, ...withoutOwner(state), ...freed, isOpen: false, hasMessage: false }
    to('deletes the message', isMine && isThere ? gone : state, IDLE)
  }
  return steps
}

function ofQueue(state: RequeueState): Steps {
  if (state.calls === 0) return []
  const calls = state.calls - 1
  return [
    { label: 'the broker takes a late call', state: { ...state, calls, queue: state.queue + 1 } },
    { label: 'a late call is lost', state: { ...state, calls } },
  ]
}

function ofWorker(state: RequeueState, rules: RequeueRules): Steps {
  if (state.runs !== 'nothing') return ofRun(state, rules)
  const steps: Steps = []
  const receives = (
    label: string,
    after: RequeueState,
    runs: 'copy' | 'late',
    isFault: boolean,
  ): void => {
    const isFree = state.row === 'waiting' || state.row === 'absent'
    const next: RequeueState = isFree ? { ...after, row: 'running', runs } : after
    steps.push({ label: `the worker receives ${label}`, state: next, isFault })
  }
  if (state.queue > 0) receives('a copy', { ...state, queue: state.queue - 1 }, 'copy', false)
  if (state.left.late > 0)
    receives('a late copy', { ...state, left: spent(state, 'late') }, 'late', true)
  if (state.parked && state.row === 'waiting') {
    steps.push({
      label: 'the worker polls it',
      state: { ...state, row: 'running', runs: 'stored' },
    })
  }
  return steps
}

function ofRun(state: RequeueState, rules: RequeueRules): Steps {
  const { left, runs } = state
  const ended = { ...state, runs: 'nothing' } as const
  // A copy that is not settled comes again; a late one does not.
  const queue = state.queue + (runs === 'copy' ? 1 : 0)
  const effects = state.effects + 1
  const none = { isOpen: false, hasMessage: false, parked: false }
  const done = { ...ended, ...withoutOwner(state), ...none, row: 'done', effects } as const
  const steps: Steps = [{ label: 'the run commits', state: done }]
  if (left.die > 0) {
    const stored = { row: 'dead', isOpen: true, hasMessage: true } as const
    const dead = { ...ended, ...withoutOwner(state), ...stored, left: spent(state, 'die') }
    steps.push({ label: 'the run dies', state: dead, isFault: true })
  }
  if (left.kill > 0) {
    const killed = { ...ended, queue, row: 'waiting', left: spent(state, 'kill') } as const
    steps.push({ label: 'its process is killed', state: killed, isFault: true })
  }
  if (left.giveBack > 0) {
    const stays = state.parked || (state.isOpen && rules.releaseKeeps)
    const row = stays ? ('waiting' as const) : ('absent' as const)
    const over = stays ? {} : { ...none, ...withoutOwner(state) }
    const back = { ...ended, queue, ...over, row, left: spent(state, 'giveBack') }
    steps.push({ label: 'the run is given back', state: back, isFault: true })
  }
  return steps
}

/** The right outlasts a call that is answered in time: only a slow operator is overtaken in its call. */
function ofTime(state: RequeueState): Steps {
  if (!state.hasRight) return []
  const isInCall = state.operators.some(({ at, isOwner }) => isOwner && at !== 'idle')
  if (isInCall && state.left.slow === 0) return []
  const left = isInCall ? spent(state, 'slow') : state.left
  return [
    { label: 'the right is over', state: { ...state, hasRight: false, left }, isFault: isInCall },
  ]
}
