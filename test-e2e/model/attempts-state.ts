import type { Step } from './explore.ts'

/** What design.md §5 and §6 ask for, each rule under its own name. A world leaves one out, to show what it is for. */
export interface AttemptsRules {
  /** An attempt that is given back keeps how often its event was deferred. */
  readonly keepsDefers: boolean
  /** A count looks at the state again under the row's lock. */
  readonly rechecks: boolean
  /** What `fail`, `bury` and `release` compare before they write. */
  readonly compares: 'nothing' | 'state' | 'attempt' | 'token'
  /** A count of moments ago belongs to a live owner. */
  readonly trustsYoung: boolean
  /** Also of one that lies ahead, after the clock was set back: it is young until that time comes again. */
  readonly trustsAhead: boolean
  /** Instead: the count is made under the row lock of the business transaction. */
  readonly countsInTransaction: boolean
  /** The business transaction compares the attempt, too. */
  readonly claimsAttempt: boolean
  /** An alone run keeps its lock until its verdict is stored. */
  readonly locksToVerdict: boolean
  /** The wait to be alone is bounded; then the event is deferred. */
  readonly boundsWait: boolean
  /** The wait to be alone comes after the count. */
  readonly countsBeforeWait: boolean
  readonly pollerPublishes: boolean
  /** A drained parked event stays parked. */
  readonly keepsParked: boolean
  /** A letter is published under an exclusive right. */
  readonly publishesLocked: boolean
  /** Only published letters are replayed. */
  readonly replaysPublished: boolean
  /** The state is read once more before a letter is published. */
  readonly rereadsLetter: boolean
  /** A burial and a replay forget that an earlier letter was published. */
  readonly resetsPublished: boolean
  /** A replayed event runs alone. */
  readonly replaysAlone: boolean
  /** A count locks the attempts, not the row of the event. */
  readonly locksOther: boolean
  /** A burial that changed no row is published all the same. */
  readonly buriesLost: boolean
  /** After an unknown commit any row means that it arrived. */
  readonly trustsAnyRow: boolean
  /** The lease store counts takeovers and ends the event. */
  readonly leasesCount: boolean
  /** The lease store remembers dead events. */
  readonly leasesKeepDead: boolean
  /** The inbox takes over the attempt of the lease. */
  readonly takesLeaseAttempt: boolean
  /** An event that waits or runs without a stored delivery gets that of its copy, before the caller has its answer. */
  readonly parksKnown: boolean
  /** Only if it still waits or runs, under the row's lock. */
  readonly parksOpen: boolean
  /** The text that commits an event begins the next one that waits in its process (design.md §15). */
  readonly chains: boolean
  /** A COMMIT that rolled back is no error, and the text goes on behind it: its command tag says so. */
  readonly readsTag: boolean
}

/** How often each fault may happen. */
export interface AttemptsFaults {
  crash: number
  duplicate: number
  /** A flaky event fails. */
  fail: number
  /** A connection is lost. */
  lost: number
  drain: number
  replay: number
  /** A lease ends though its owner lives. */
  expire: number
  flush: number
  /** A claim whose caller is gone lands. */
  late: number
  leasesDown: number
  /** The clock of the database is set, by more than a count is young. */
  clock: number
}

/**
 * What the handler of an event does: `ok`, `flaky` (fails while faults are left), `fails` (always), `fatal`, `kills` its
 * process, `waits` in the handler until the next event of the world is done, or `defers` itself each time.
 */
export type Behaviour = 'ok' | 'flaky' | 'fails' | 'fatal' | 'kills' | 'waits' | 'defers'

export interface AttemptsWorld {
  readonly events: readonly Behaviour[]
  readonly maxAttempts: number
  readonly maxDefers: number
  readonly processes: number
  /** Deliveries that a process runs at the same time. */
  readonly fibers: number
  readonly isBatch: boolean
  readonly hasLeases: boolean
  /** A delivery may be stored, for the poller to run it. */
  readonly mayPark: boolean
  /** Events whose run, before the world begins, ended without a verdict. */
  readonly crashed: readonly number[]
  readonly rules: AttemptsRules
  readonly faults: AttemptsFaults
}

export interface Member {
  readonly event: number
  readonly from: 'queue' | 'poller'
  isSuspect: boolean
  /** It is stored in place of a run. */
  readonly isToPark: boolean
  result?: 'ack' | 'publish' | 'defer' | 'abandon' | 'lease-dead'
  attempt: number
  leaseAttempt: number
  hasLease: boolean
  /** Its token is the one in the row. */
  hasToken: boolean
  hasFailed: boolean
  letter?: 'locked' | 'told' | 'marked'
  isSettled: boolean
}

export interface Part {
  readonly kind: 'park' | 'clean' | 'suspect' | 'read' | 'retry' | 'alone' | 'business'
  /** Indexes of members. */
  members: number[]
  isCounted: boolean
}

/** A delivery, or a batch of them, on its way through a process. */
export interface Fiber {
  readonly members: Member[]
  work: Part[]
  part: Part | null
  at:
    | 'leases'
    | 'park'
    | 'park read'
    | 'park known'
    | 'claim'
    | 'suspects'
    | 'read'
    | 'shared'
    | 'exclusive'
    | 'count'
    | 'business'
    | 'count locked'
    | 'run'
    | 'commit'
    | 'unknown'
    | 'fail'
    | 'bury'
    | 'defer'
    | 'release'
    | 'settle'
  index: number
  /** Members of the claim that have a row. */
  others: number[]
  /** Rows that its open transaction holds. */
  holds: number[]
  lock: 'none' | 'shared' | 'exclusive'
}

export interface Row {
  state: 'absent' | 'done' | 'running' | 'waiting' | 'dead'
  attempt: number
  /** How often its handler has deferred it. */
  defers: number
  isDue: boolean
  isParked: boolean
  isPublished: boolean
  /** It was counted moments ago. */
  isYoung: boolean
  /** It was counted at a time that is still to come. */
  isAhead: boolean
  isReplayed: boolean
}

/** What the model remembers of an event to judge what happens to it. */
export interface Record {
  effects: number
  hasLetter: boolean
  /** Crashes and lost connections that its counted runs have met. */
  hits: number
  burns: number
  kills: number
  failures: number
  /** Deferrals since the event was delivered, or replayed. */
  defers: number
}

export interface Process {
  fibers: (Fiber | null)[]
  /** Fibers that wait for the lock, the first one first. */
  waiters: number[]
}

export interface AttemptsState {
  rows: Row[]
  records: Record[]
  /** Copies at the broker: first deliveries, and suspects. */
  queue: [number, number][]
  /** Transactions whose client is gone. `behind`: what the rest of the text claims after COMMIT. */
  orphans: { holds: number[]; isCommitting: boolean; behind: readonly number[] }[]
  processes: Process[]
  leases: {
    state: 'absent' | 'live' | 'expired' | 'waiting' | 'due' | 'done' | 'dead'
    attempt: number
  }[]
  left: AttemptsFaults
  wrong?: string
}

export class Violation extends Error {}

/** Adds a step that changes a copy of the state. */
export type Add = (label: string, change: (state: AttemptsState) => void, isFault?: boolean) => void

export function collector(state: AttemptsState, steps: Step<AttemptsState>[]): Add {
  return (label, change, isFault = false) => {
    const after = clone(state)
    try {
      change(after)
    } catch (error) {
      if (!(error instanceof Violation)) throw error
      after.wrong = error.message
    }
    steps.push({ label, state: canonical(after), isFault })
  }
}

export function initial({
  crashed,
  events,
  faults,
  fibers,
  processes,
}: AttemptsWorld): AttemptsState {
  const each = <Value>(make: (event: number) => Value): Value[] =>
    events.map((_, event) => make(event))
  return {
    rows: each((event) => ({
      state: crashed.includes(event) ? 'running' : 'absent',
      attempt: crashed.includes(event) ? 1 : 0,
      defers: 0,
      ...{ isDue: false, isParked: false, isPublished: false, isYoung: false, isAhead: false },
      isReplayed: false,
    })),
    records: each((event) => ({
      hits: crashed.includes(event) ? 1 : 0,
      ...{ effects: 0, hasLetter: false, burns: 0, kills: 0, failures: 0, defers: 0 },
    })),
    queue: each((event) => (crashed.includes(event) ? [0, 1] : [1, 0])),
    orphans: [],
    processes: Array.from({ length: processes }, () => ({
      fibers: Array.from({ length: fibers }, () => null),
      waiters: [],
    })),
    leases: each(() => ({ state: 'absent', attempt: 0 })),
    left: { ...faults },
  }
}

/** Two processes are alike, so a state and its mirror image are one. */
export function canonical(state: AttemptsState): AttemptsState {
  const byText = (one: unknown, other: unknown): number =>
    JSON.stringify(one) < JSON.stringify(other) ? -1 : 1
  if (state.orphans.length > 1) state.orphans.sort(byText)
  if (state.processes.length > 1) state.processes.sort(byText)
  return state
}

/** Several times as fast as `structuredClone` for what a state is made of. */
export function clone<Value>(value: Value): Value {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(clone) as Value
  const copy: { [name: string]: unknown } = {}
  for (const name in value) copy[name] = clone(value[name])
  return copy as Value
}

export function isEnd(
  { orphans, processes, queue, records, rows }: AttemptsState,
  { mayPark }: AttemptsWorld,
): boolean {
  // A guard that parks its events has no dead-letter place but its tables.
  const isTold = ({ isPublished }: Row, event: number): boolean =>
    mayPark || (isPublished && records[event]?.hasLetter === true)
  return (
    orphans.length === 0 &&
    processes.every(({ fibers }) => fibers.every((fiber) => fiber === null)) &&
    queue.every(([fresh, suspects]) => fresh + suspects === 0) &&
    rows.every((row, event) => row.state === 'done' || (row.state === 'dead' && isTold(row, event)))
  )
}
