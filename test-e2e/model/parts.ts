import type { Model, Step } from './explore.ts'

/** The rules of a message with several events, and of `afterCommit`. A world leaves one out, to show what it is for. */
export interface PartsRules {
  /** The message is acknowledged when all its events are done or recorded as dead, not with the first. */
  readonly waitsForAll: boolean
  /** A dead event is recorded before it counts as ended. */
  readonly recordsDead: boolean
  /** `afterCommit` is called before the ack. */
  readonly callsBeforeAck: boolean
  /** A duplicate calls `afterCommit` too. */
  readonly callsForDuplicates: boolean
  /** A call that failed defers the message. */
  readonly defersFailedCalls: boolean
  /** The redelivery finds the events that are done. */
  readonly remembers: boolean
}

/** How often each fault may happen. */
export interface PartsFaults {
  readonly crash: number
  readonly duplicate: number
  /** A run fails and is retried, or fails for good. */
  readonly fail: number
  readonly fatal: number
  /** `afterCommit` throws. */
  readonly call: number
}

/** An event of the message, in the store. */
interface Event {
  readonly row: 'absent' | 'waiting' | 'done' | 'dead'
  readonly effects: number
  readonly isCalled: boolean
}

/** How far a worker is with an event of the delivery in its hand. */
type Part = 'open' | 'committed' | 'ended' | 'deferred' | 'unrecorded'

interface PartsState {
  readonly events: readonly Event[]
  /** Copies at the broker that nobody has. */
  readonly queue: number
  /** Parts of the delivery that each worker has. */
  readonly workers: readonly (readonly Part[] | null)[]
  readonly isAcked: boolean
  readonly left: PartsFaults
}

const NEW: Event = { row: 'absent', effects: 0, isCalled: false }
const EVENTS = 2

/** One message of two events, and two workers. Rows decide as in `attempts`; here a claim and its run are one step. */
export function parts(rules: PartsRules, faults: PartsFaults): Model<PartsState> {
  const ends = (event: Event): boolean =>
    event.row === 'dead' || (event.row === 'done' && event.isCalled)
  return {
    initial: {
      ...{ events: [NEW, NEW], queue: 1, workers: [null, null], isAcked: false, left: faults },
    },
    next: (state) => [
      ...ofQueue(state),
      ...state.workers.flatMap((parts, worker) =>
        parts === null ? [] : ofWorker(state, rules, { parts, worker }),
      ),
    ],
    violation: ({ events, isAcked, queue, workers }) => {
      if (events.some(({ effects }) => effects > 1)) return 'two effects'
      const isGone = isAcked && queue === 0 && workers.every((parts) => parts === null)
      if (isGone && events.some(({ row }) => row === 'absent' || row === 'waiting')) {
        return 'acked and lost'
      }
      return isGone && !events.every(ends) ? 'acked without its reply' : undefined
    },
    isEnd: ({ events, queue, workers }) =>
      queue === 0 && workers.every((parts) => parts === null) && events.every(ends),
  }
}

type Steps = Step<PartsState>[]

const spent = (left: PartsFaults, fault: keyof PartsFaults): PartsFaults => ({
  ...left,
  [fault]: left[fault] - 1,
})

const withAt = <Value>(all: readonly Value[], at: number, value: Value): readonly Value[] =>
  all.map((one, index) => (index === at ? value : one))

function ofQueue(state: PartsState): Steps {
  const { left, queue, workers } = state
  const steps: Steps = []
  if (queue === 0) return steps
  if (left.duplicate > 0) {
    const after = { ...state, queue: queue + 1, left: spent(left, 'duplicate') }
    steps.push({ label: 'the broker has a copy', state: after, isFault: true })
  }
  for (const [worker, parts] of workers.entries()) {
    if (parts !== null) continue
    const received: readonly Part[] = Array.from({ length: EVENTS }, () => 'open')
    const after = { ...state, queue: queue - 1, workers: withAt(workers, worker, received) }
    steps.push({ label: `W${worker} receives the message`, state: after })
  }
  return steps
}

interface Hand {
  readonly worker: number
  readonly parts: readonly Part[]
}

function ofWorker(state: PartsState, rules: PartsRules, { parts, worker }: Hand): Steps {
  const { left, queue, workers } = state
  const steps: Steps = []
  const put = (label: string, after: PartsState, hand: readonly Part[] | null, isFault = false) =>
    steps.push({
      label: `W${worker} ${label}`,
      state: { ...after, workers: withAt(workers, worker, hand) },
      isFault,
    })
  if (left.crash > 0) {
    put('dies', { ...state, queue: queue + 1, left: spent(left, 'crash') }, null, true)
  }
  const isEnded = (part: Part): boolean => part === 'ended' || part === 'unrecorded'
  const mayAck = rules.waitsForAll ? parts.every(isEnded) : parts.some(isEnded)
  if (mayAck) put('acks the message', { ...state, isAcked: true }, null)
  const isOver = parts.every((part) => isEnded(part) || part === 'deferred')
  if (isOver && parts.includes('deferred')) {
    put('defers the message', { ...state, queue: queue + 1 }, null)
  }
  for (const [at, part] of parts.entries()) {
    const event = state.events[at] ?? NEW
    const to = (label: string, next: Part, change: Partial<Event>, fault?: keyof PartsFaults) => {
      if (fault !== undefined && left[fault] === 0) return
      const events = withAt(state.events, at, { ...event, ...change })
      const after = { ...state, events, left: fault === undefined ? left : spent(left, fault) }
      put(`${label} e${at}`, after, withAt(parts, at, next), fault !== undefined)
    }
    if (part === 'open') ofOpen(rules, event, to)
    if (part === 'committed') {
      to('replies for', 'ended', { isCalled: true })
      to('fails to reply for', rules.defersFailedCalls ? 'deferred' : 'ended', {}, 'call')
    }
  }
  return steps
}

type To = (label: string, next: Part, change: Partial<Event>, fault?: keyof PartsFaults) => void

function ofOpen(
  { callsBeforeAck, callsForDuplicates, recordsDead, remembers }: PartsRules,
  event: Event,
  to: To,
): void {
  const { effects, row } = event
  const committed: Part = callsBeforeAck ? 'committed' : 'ended'
  if (row === 'dead') to('finds dead', 'ended', {})
  else if (row === 'done' && remembers) {
    to('finds done', callsForDuplicates ? committed : 'ended', {})
  } else {
    to('commits', committed, { row: 'done', effects: effects + 1 })
    to('fails', 'deferred', { row: 'waiting' }, 'fail')
    to(
      'ends for good',
      recordsDead ? 'ended' : 'unrecorded',
      recordsDead ? { row: 'dead' } : {},
      'fatal',
    )
  }
}
