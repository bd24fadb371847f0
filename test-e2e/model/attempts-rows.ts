import {
  type AttemptsFaults,
  type AttemptsState,
  type AttemptsWorld,
  type Fiber,
  type Member,
  type Part,
  type Process,
  type Record,
  type Row,
  Violation,
} from './attempts-state.ts'

export function bad(why: string): never {
  throw new Violation(why)
}

export function spend(state: AttemptsState, fault: keyof AttemptsFaults): void {
  state.left[fault] -= 1
}

export const rowOf = (state: AttemptsState, event: number): Row => state.rows[event] as Row
export const recordOf = (state: AttemptsState, event: number): Record =>
  state.records[event] as Record

export function* fibersOf({ processes }: AttemptsState): Generator<Fiber> {
  for (const { fibers } of processes) for (const fiber of fibers) if (fiber !== null) yield fiber
}

/** Whether another transaction holds the row of the event. */
export function isLocked(state: AttemptsState, event: number, me?: Fiber): boolean {
  if (state.orphans.some(({ holds }) => holds.includes(event))) return true
  for (const fiber of fibersOf(state)) {
    if (fiber !== me && fiber.holds.includes(event)) return true
  }
  return false
}

export function commit(state: AttemptsState, events: readonly number[]): void {
  for (const event of events) {
    Object.assign(rowOf(state, event), FORGOTTEN, { state: 'done' })
    const record = recordOf(state, event)
    record.effects += 1
    if (record.effects > 1) bad('two committed effects')
  }
}

export const FORGOTTEN = {
  attempt: 0,
  defers: 0,
  isDue: false,
  isParked: false,
  isPublished: false,
  isYoung: false,
  isAhead: false,
} as const

export function setState(
  state: AttemptsState,
  { events, maxAttempts, rules }: AttemptsWorld,
  event: number,
  to: Row['state'],
): void {
  const [row, record] = [rowOf(state, event), recordOf(state, event)]
  if (row.state === 'done' && to !== 'done') bad('a committed effect, then another state')
  if (to === 'dead') {
    const isInnocent = events[event] === 'ok' || events[event] === 'waits'
    if (isInnocent && record.hits < maxAttempts) bad('an innocent event is buried')
    if (events[event] === 'flaky' && record.hits + record.failures < maxAttempts)
      bad('buried before its attempts are spent')
    if (rules.resetsPublished || row.state === 'absent') row.isPublished = false
  }
  if (row.attempt > maxAttempts + 1) bad('more attempts than there are')
  row.state = to
  row.isYoung = to === 'running'
  row.isAhead = false
}

/** A counted run has met a crash: by a fault, or by the poison of that index. */
export function hit(
  state: AttemptsState,
  { events, maxAttempts }: AttemptsWorld,
  event: number,
  poison?: number,
): void {
  const record = recordOf(state, event)
  record.hits = Math.min(record.hits + 1, maxAttempts)
  if (poison === undefined || poison === event || events[event] === 'kills') return
  record.burns += 1
  if (record.burns > 1) bad('a second attempt burnt by the poison beside it')
}

export function crash(
  state: AttemptsState,
  world: AttemptsWorld,
  index: number,
  poison?: number,
): void {
  const process = state.processes[index]
  if (process === undefined) return
  for (const fiber of process.fibers) {
    if (fiber === null) continue
    for (const { event, from, isSettled } of fiber.members) {
      const copies = state.queue[event]
      if (from === 'queue' && !isSettled && copies !== undefined) copies[1] += 1
    }
    if (fiber.part?.isCounted) {
      for (const event of eventsOf(fiber)) hit(state, world, event, poison)
    }
    if (fiber.holds.length > 0) {
      const isCommitting = fiber.at === 'commit'
      const behind = isCommitting ? behindOf(process, world) : []
      state.orphans.push({ holds: fiber.holds, isCommitting, behind })
    }
  }
  process.fibers = process.fibers.map(() => null)
  process.waiters = []
}

/** What the text of a transaction would begin behind its COMMIT, if its process dies now. */
function behindOf(process: Process, world: AttemptsWorld): readonly number[] {
  const [slot] = ridersOf(process, world)
  return slot === undefined ? [] : eventsOf(process.fibers[slot] as Fiber)
}

/** Fibers that may ride: those that are about to claim first deliveries, and hold nothing. */
export function ridersOf({ fibers }: Process, { rules }: AttemptsWorld): readonly number[] {
  if (!rules.chains) return []
  return [...fibers.keys()].filter((slot) => {
    const fiber = fibers[slot]
    if (!fiber || fiber.holds.length > 0 || fiber.index > 0) return false
    return fiber.at === 'claim'
  })
}

/** At most one member anywhere has the token that is in the row. */
export function giveToken(state: AttemptsState, event: number, owner?: Member): void {
  for (const { members } of fibersOf(state)) {
    for (const member of members) if (member.event === event) member.hasToken = false
  }
  if (owner !== undefined) owner.hasToken = true
}

// ---- the work of a fiber

export const memberOf = (fiber: Fiber, index: number): Member => fiber.members[index] as Member

/** The events of the part that a fiber works at. */
export const eventsOf = (fiber: Fiber): number[] =>
  fiber.part?.members.map((index) => memberOf(fiber, index).event) ?? []

export const part = (kind: Part['kind'], members: number[], isCounted = false): Part => ({
  ...{ kind, members, isCounted },
})

/** Each member of a part becomes a part of its own. */
export const singles = ({ isCounted, kind, members }: Part): Part[] =>
  members.map((index) => part(kind, [index], isCounted))

/** The next part of the work; local, so that it costs no step. */
export function advance(fiber: Fiber, { rules }: AttemptsWorld): void {
  Object.assign(fiber, { lock: 'none', holds: [], index: 0 })
  fiber.part = fiber.work.shift() ?? null
  if (fiber.part === null) fiber.at = 'settle'
  else {
    fiber.at = (
      {
        park: 'park',
        clean: 'claim',
        suspect: 'suspects',
        read: 'read',
        retry: rules.countsInTransaction ? 'business' : 'count',
        alone: rules.countsBeforeWait ? 'count' : 'exclusive',
        business: 'business',
      } as const
    )[fiber.part.kind]
  }
}

/** After the lease store: what is known of the members splits them. */
export function begin(fiber: Fiber, world: AttemptsWorld): void {
  const open = [...fiber.members.keys()].filter(
    (index) => memberOf(fiber, index).result === undefined,
  )
  const fits = (kind: Part['kind'], wanted: (member: Member) => boolean): Part[] => {
    const members = open.filter((index) => wanted(memberOf(fiber, index)))
    return members.length > 0 ? [part(kind, members)] : []
  }
  fiber.work = [
    ...fits('park', ({ isToPark }) => isToPark),
    ...fits('clean', (one) => one.from === 'queue' && !one.isSuspect && !one.isToPark),
    ...fits('suspect', (one) => one.from === 'queue' && one.isSuspect && !one.isToPark),
    ...fits('read', ({ from }) => from === 'poller'),
  ]
  advance(fiber, world)
}

export function readAgain(fiber: Fiber, members: number[]): void {
  if (members.length > 0) fiber.work.unshift(part('read', members))
}
