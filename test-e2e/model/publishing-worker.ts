import type { Step } from './explore.ts'
import {
  changed,
  IDLE,
  marked,
  type PublishingRules,
  type PublishingState,
  type Steps,
  type Worker,
  withoutOwners,
} from './publishing-state.ts'

/** The steps of one process. */
export function ofWorker(
  state: PublishingState,
  rules: PublishingRules,
  { worker, index }: { readonly worker: Worker; readonly index: number },
): Steps {
  const to = (label: string, change: Partial<Worker>, rest: Partial<PublishingState> = {}) => {
    const after = { ...state, ...rest }
    return {
      label: `P${index} ${label}`,
      state: { ...after, workers: changed(after, index, change) },
    }
  }
  const settles = (ack: boolean): Partial<Worker> => ({
    ...IDLE,
    at: 'settles',
    from: worker.from,
    ack,
  })
  switch (worker.at) {
    case 'idle':
      return begins(state, rules, to)
    case 'looks':
      return looks(state, rules, to)
    case 'takes': {
      if (state.row !== 'dead') return [to('finds it is no longer dead', settles(false))]
      if (state.published && rules.publishedSettles)
        return [to('finds it published', settles(true))]
      if (state.hasRight && rules.isExclusive) return [to('finds it held', settles(false))]
      const published = rules.marksAfter ? state.published : true
      const after = { ...state, ...withoutOwners(state), hasRight: true, published }
      const right = { isOwner: true, inTime: true, death: state.death }
      const workers = changed(after, index, { at: 'calls', ...right })
      return [{ label: `P${index} takes the right to publish`, state: { ...after, workers } }]
    }
    case 'calls': {
      const { death, inTime, isOwner } = worker
      const call = { death, isOwner, inTime, caller: index, late: -1 }
      const wrong = inTime ? wrongCall(state, rules, death) : undefined
      const rest = { calls: [...state.calls, call], wrong: wrong ?? state.wrong }
      return [to('calls the place', { at: 'waits' }, rest)]
    }
    case 'waits':
      return []
    case 'marks': {
      const isMine = rules.comparesToken ? worker.isOwner : state.row === 'dead'
      const after = marked(state, worker.isOwner, rules)
      const workers = changed(after, index, settles(isMine))
      return [{ label: `P${index} marks it as published`, state: { ...after, workers } }]
    }
    case 'gives back': {
      const rest = worker.isOwner || !rules.comparesToken ? { hasRight: false } : {}
      return [to('gives the right back', settles(false), rest)]
    }
    case 'settles':
      return [to(worker.ack ? 'acks' : 'defers', IDLE, settled(state, worker))]
    default:
      return worker.at satisfies never
  }
}

type To = (
  label: string,
  change: Partial<Worker>,
  rest?: Partial<PublishingState>,
) => Step<PublishingState>

function begins(
  { parked, published, queue, row }: PublishingState,
  rules: PublishingRules,
  to: To,
): Steps {
  const steps: Steps = []
  if (queue > 0)
    steps.push(to('receives it', { at: 'looks', from: 'broker' }, { queue: queue - 1 }))
  const isToPublish = row === 'dead' && !published && rules.pollerPublishes
  if (parked && (row === 'waiting' || isToPublish)) {
    steps.push(to('polls it', { at: 'looks', from: 'poller' }))
  }
  return steps
}

function looks(state: PublishingState, rules: PublishingRules, to: To): Steps {
  if (state.row === 'done') return [to('finds it done', { at: 'settles', ack: true })]
  if (state.row === 'dead') {
    if (state.published && rules.publishedSettles) {
      return [to('finds it published', { at: 'settles', ack: true })]
    }
    return rules.redeliveryPublishes
      ? [to('finds it dead', { at: 'takes' })]
      : [to('finds it dead', { at: 'settles', ack: true })]
  }
  const unpublished = { ...withoutOwners(state), published: false, hasRight: false }
  const buried = { ...state, ...unpublished, row: 'dead', death: state.death + 1 } as const
  const steps = [to('runs it, and it dies', { at: 'takes' }, buried)]
  // The first run dies, so that there is a letter; after a replay both may happen.
  if (state.row === 'waiting') {
    steps.push(to('runs it, and it commits', { at: 'settles', ack: true }, { row: 'done' }))
  }
  return steps
}

/** The broker may forget the message when the event is done, published, discarded, or parked. */
function settled(state: PublishingState, { ack, from }: Worker): Partial<PublishingState> {
  if (from === 'poller') return {}
  if (!ack) return { queue: state.queue + 1 }
  const { discarded, letters, parked, row } = state
  const isSafe = row === 'done' || parked || discarded || letters.includes(state.death)
  return isSafe ? {} : { wrong: `acked while it is ${row} and not published` }
}

/** Without a fault, a letter is published once. */
function wrongCall(
  { calls, published }: PublishingState,
  { marksAfter }: PublishingRules,
  death: number,
): string | undefined {
  if (published && marksAfter) return 'published again'
  const isTwice = calls.some((call) => call.inTime && call.death === death && call.caller >= 0)
  return isTwice ? 'published by two at the same time' : undefined
}
