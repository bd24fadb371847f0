import type { Model, Step } from './explore.ts'
import {
  type Call,
  changed,
  IDLE,
  marked,
  type PublishingFaults,
  type PublishingRules,
  type PublishingState,
  type Steps,
  withoutOwners,
} from './publishing-state.ts'
import { ofWorker } from './publishing-worker.ts'

/** One event that dies, two processes, a poller, an operator and a dead-letter place. */
export function publishing(
  rules: PublishingRules,
  faults: PublishingFaults,
): Model<PublishingState> {
  return {
    initial: {
      ...{ row: 'absent', death: 0, published: false, hasRight: false, parked: false },
      ...{
        discarded: false,
        queue: 1,
        letters: [],
        calls: [],
        workers: [IDLE, IDLE],
        left: faults,
      },
    },
    next: (state) => [
      ...ofTime(state, rules),
      ...ofOperator(state, rules),
      ...ofPlace(state, rules),
      ...state.workers.flatMap((worker, index) => [
        ...ofWorker(state, rules, { worker, index }),
        ...crash(state, index),
      ]),
    ],
    violation: ({ death, discarded, letters, published, row, wrong }) => {
      if (wrong !== undefined) return wrong
      const isTold = letters.includes(death) || discarded
      return row === 'dead' && published && !isTold
        ? 'marked as published without a letter'
        : undefined
    },
    isEnd: ({ calls, published, queue, row, workers }) =>
      queue === 0 &&
      calls.length === 0 &&
      workers.every(({ at }) => at === 'idle') &&
      (row === 'done' || (row === 'dead' && published)),
  }
}

const spend = (state: PublishingState, fault: keyof PublishingFaults): PublishingFaults => ({
  ...state.left,
  [fault]: state.left[fault] - 1,
})

function ofTime(state: PublishingState, rules: PublishingRules): Steps {
  const { left, queue } = state
  const steps: Steps = []
  if (left.duplicate > 0) {
    const after = { ...state, queue: queue + 1, left: spend(state, 'duplicate') }
    steps.push({ label: 'broker: another copy', state: after, isFault: true })
  }
  if (!(state.hasRight && rules.expires)) return steps
  // The right outlasts a call that is answered in time: only a slow process is overtaken in its call.
  const isInCall = state.workers.some(
    ({ at, isOwner }) => isOwner && (at === 'calls' || at === 'waits' || at === 'marks'),
  )
  if (isInCall && left.slow === 0) return steps
  const spent = isInCall ? spend(state, 'slow') : left
  const calls = state.calls.map((call) => ({ ...call, inTime: false }))
  const workers = state.workers.map((worker) => ({ ...worker, inTime: false }))
  const after = { ...state, calls, workers, hasRight: false, left: spent }
  return [...steps, { label: 'the right is over', state: after, isFault: isInCall }]
}

function ofOperator(state: PublishingState, rules: PublishingRules): Steps {
  if (state.row !== 'dead' || state.discarded || (rules.replayWaits && state.hasRight)) return []
  const steps: Steps = []
  const after = { ...state, ...withoutOwners(state), hasRight: false }
  if (state.left.replay > 0) {
    const waiting = { row: 'waiting', parked: true, published: false } as const
    const replayed = { ...after, ...waiting, left: spend(state, 'replay') }
    steps.push({ label: 'operator: replay', state: replayed, isFault: true })
  }
  if (state.left.discard > 0) {
    const gone = { discarded: true, parked: false, published: true }
    const discarded = { ...after, ...gone, left: spend(state, 'discard') }
    steps.push({ label: 'operator: discard', state: discarded, isFault: true })
  }
  return steps
}

function ofPlace(state: PublishingState, rules: PublishingRules): Steps {
  return state.calls.flatMap((call, index) => {
    const calls = state.calls.filter((_, at) => at !== index)
    const steps: Steps = [taken({ ...state, calls }, call, rules)]
    if (call.caller >= 0 && state.left.refuse > 0) {
      const workers = changed(state, call.caller, { at: 'gives back' })
      const after = { ...state, calls, workers, left: spend(state, 'refuse') }
      steps.push({ label: 'the place refuses', state: after, isFault: true })
    }
    if (call.caller >= 0 && state.left.hang > 0) {
      const hanging = { ...call, caller: -1, late: call.caller }
      const workers = changed(state, call.caller, { at: 'settles', ack: false, isOwner: false })
      const after = { ...state, calls: [...calls, hanging], workers, left: spend(state, 'hang') }
      steps.push({ label: 'the call is given up', state: after, isFault: true })
    }
    if (call.caller < 0) steps.push({ label: 'the call is lost', state: { ...state, calls } })
    return steps
  })
}

/** The place has the letter, and whoever waits hears of it. */
function taken(state: PublishingState, call: Call, rules: PublishingRules): Step<PublishingState> {
  const { death, inTime, isOwner } = call
  const letters = [...new Set([...state.letters, death])].toSorted()
  // A call that outlasted its right may come late: its letter is told by the id.
  const isWrong = inTime && state.row !== 'dead'
  const wrong = isWrong ? `published as dead while it is ${state.row}` : state.wrong
  const after = { ...state, letters, wrong }
  if (call.caller >= 0) {
    const workers = changed(after, call.caller, { at: 'marks' })
    return { label: 'the place takes the letter', state: { ...after, workers } }
  }
  const label = 'the place takes the letter of a call that was given up'
  return { label, state: call.late >= 0 ? marked(after, isOwner, rules) : after }
}

function crash(state: PublishingState, index: number): Steps {
  const worker = state.workers[index]
  if (worker === undefined || worker.at === 'idle' || state.left.crash === 0) return []
  const queue = state.queue + (worker.from === 'broker' ? 1 : 0)
  const calls = state.calls.map((call) => {
    const isMine = call.caller === index || call.late === index
    return isMine ? { ...call, caller: -1, late: -1 } : call
  })
  const workers = changed(state, index, IDLE)
  const after = { ...state, queue, calls, workers, left: spend(state, 'crash') }
  return [{ label: `P${index} crashes`, state: after, isFault: true }]
}
