import type { Step } from './explore.ts'

/** What design.md §6 ("Dead letters") asks for. A world leaves one of them out, to show what it is for. */
export interface PublishingRules {
  /** The right to publish is exclusive while it lasts. */
  readonly isExclusive: boolean
  /** The right ends by the clock of the store. */
  readonly expires: boolean
  /** Only the owner of the right ends it. */
  readonly comparesToken: boolean
  /** The mark comes after the broker's confirmation. */
  readonly marksAfter: boolean
  /** Replay and discard wait until the right is over. */
  readonly replayWaits: boolean
  /** A redelivery of a dead event that is not published publishes it. */
  readonly redeliveryPublishes: boolean
  /** A redelivery of a published one settles, and publishes nothing. */
  readonly publishedSettles: boolean
  /** The poller publishes parked dead letters. */
  readonly pollerPublishes: boolean
}

/** How often each fault may happen. */
export interface PublishingFaults {
  readonly crash: number
  /** The broker brings the message once more. */
  readonly duplicate: number
  /** The dead-letter place refuses. */
  readonly refuse: number
  /** A call is given up, and the broker may take the letter at any later time. */
  readonly hang: number
  /** A process is so slow that its right is over before its call. */
  readonly slow: number
  readonly replay: number
  readonly discard: number
}

/** A call of the dead-letter place that is on the wire. */
export interface Call {
  /** The death that it tells of. */
  readonly death: number
  /** Its token is the one in the row. */
  readonly isOwner: boolean
  /** The time of its right is not over. */
  readonly inTime: boolean
  /** The process that waits for the answer; -1 when nobody waits. */
  readonly caller: number
  /** The process that marks the row when a late answer comes; -1 when it is gone. */
  readonly late: number
}

export interface Worker {
  readonly at: 'idle' | 'looks' | 'takes' | 'calls' | 'waits' | 'marks' | 'gives back' | 'settles'
  readonly from: 'broker' | 'poller'
  /** Its token is the one in the row. */
  readonly isOwner: boolean
  /** The time of its right is not over. */
  readonly inTime: boolean
  readonly death: number
  readonly ack: boolean
}

export interface PublishingState {
  readonly row: 'absent' | 'waiting' | 'dead' | 'done'
  /** Deaths so far; the last one is told by the row. */
  readonly death: number
  readonly published: boolean
  readonly hasRight: boolean
  readonly parked: boolean
  readonly discarded: boolean
  /** Copies at the broker. */
  readonly queue: number
  /** The deaths whose letters the place has. */
  readonly letters: readonly number[]
  readonly calls: readonly Call[]
  readonly workers: readonly Worker[]
  readonly left: PublishingFaults
  readonly wrong?: string | undefined
}

export const IDLE: Worker = {
  ...{ at: 'idle', from: 'broker', isOwner: false, inTime: false, death: 0, ack: false },
}

export type Steps = Step<PublishingState>[]

/** The row has another token now, or none: nobody else's is the one in the row. */
export function withoutOwners(state: PublishingState): Pick<PublishingState, 'calls' | 'workers'> {
  return {
    calls: state.calls.map((call) => ({ ...call, isOwner: false })),
    workers: state.workers.map((worker) => ({ ...worker, isOwner: false })),
  }
}

export function changed(
  state: PublishingState,
  index: number,
  worker: Partial<Worker>,
): readonly Worker[] {
  return state.workers.map((one, at) => (at === index ? { ...one, ...worker } : one))
}

/** The row is marked where the token is still its own. */
export function marked(
  state: PublishingState,
  isOwner: boolean,
  { comparesToken }: PublishingRules,
): PublishingState {
  if (comparesToken ? !isOwner : state.row !== 'dead') return state
  return { ...state, ...withoutOwners(state), published: true, hasRight: false }
}
