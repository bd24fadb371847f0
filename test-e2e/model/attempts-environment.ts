import { goOn } from './attempts-chain.ts'
import {
  begin,
  commit,
  crash,
  fibersOf,
  giveToken,
  isLocked,
  recordOf,
  rowOf,
  spend,
} from './attempts-rows.ts'
import type { Add, AttemptsState, AttemptsWorld, Fiber, Member } from './attempts-state.ts'

/** What happens without a process: time, servers that notice a dead client, the broker and the operator. */
export function ofEnvironment(state: AttemptsState, world: AttemptsWorld, add: Add): void {
  ofOrphans(state, add)
  ofClock(state, world, add)
  for (const event of state.rows.keys()) {
    ofTime(state, world, { event, add })
    ofBroker(state, event, add)
    ofOperator(state, world, { event, add })
    if (world.hasLeases) ofLeases(state, event, add)
  }
  if (!world.hasLeases || state.left.flush === 0) return
  add(
    'the lease store loses everything',
    (after) => {
      spend(after, 'flush')
      after.leases = after.leases.map(() => ({ state: 'absent', attempt: 0 }))
      for (const { members } of fibersOf(after))
        for (const member of members) member.hasLease = false
    },
    true,
  )
}

interface Turn {
  readonly event: number
  readonly add: Add
}

function ofOrphans({ orphans }: AttemptsState, add: Add): void {
  for (const [index, { behind, holds, isCommitting }] of orphans.entries()) {
    add(`the server rolls back e${holds} of a dead client`, (after) => {
      after.orphans.splice(index, 1)
    })
    if (!isCommitting) continue
    add(`the server commits e${holds} of a dead client`, (after) => {
      after.orphans.splice(index, 1)
      commit(after, holds)
      goOn(after, behind)
    })
  }
}

/** Every count is then far from now. Its owner may live, and loses at most the attempt. */
function ofClock(state: AttemptsState, { maxAttempts, rules }: AttemptsWorld, add: Add): void {
  if (state.left.clock === 0) return
  add(
    'the clock of the database is set back',
    (after) => {
      spend(after, 'clock')
      for (const [event, row] of after.rows.entries()) {
        if (row.state !== 'running' || !row.isYoung) continue
        const record = recordOf(after, event)
        record.hits = Math.min(record.hits + 1, maxAttempts)
        row.isAhead = rules.trustsAhead
        row.isYoung = rules.trustsAhead
      }
    },
    true,
  )
}

function ofTime(state: AttemptsState, { rules }: AttemptsWorld, { add, event }: Turn): void {
  const { isAhead, isDue, isYoung, state: now } = rowOf(state, event)
  if (now === 'waiting' && !isDue) {
    add(`e${event} is due`, (after) => {
      rowOf(after, event).isDue = true
    })
  }
  if (!rules.trustsYoung || !isYoung || isAhead) return
  // A runner later than that does not start.
  const isToStart = [...fibersOf(state)].some(
    (fiber) =>
      fiber.at === 'business' &&
      fiber.part?.members.some((index) => fiber.members[index]?.event === event),
  )
  if (isToStart) return
  add(`the count of e${event} is no longer young`, (after) => {
    rowOf(after, event).isYoung = false
  })
}

function ofBroker(state: AttemptsState, event: number, add: Add): void {
  if (state.left.duplicate === 0) return
  const again = (label: string, which: 0 | 1): void =>
    add(
      label,
      (after) => {
        spend(after, 'duplicate')
        const copies = after.queue[event]
        if (copies !== undefined) copies[which] += 1
      },
      true,
    )
  again(`broker: e${event} again, not marked`, 0)
  const isInFlight = [...fibersOf(state)].some(({ members }) =>
    members.some((member) => member.event === event && member.from === 'queue'),
  )
  if (isInFlight) again(`broker: e${event} redelivered while it is in flight`, 1)
}

function ofOperator(state: AttemptsState, { rules }: AttemptsWorld, { add, event }: Turn): void {
  const row = rowOf(state, event)
  if (state.left.replay === 0 || row.state !== 'dead' || isLocked(state, event)) return
  if (rules.replaysPublished && !row.isPublished) return
  add(
    `operator: replay e${event}`,
    (after) => {
      spend(after, 'replay')
      const replayed = {
        state: 'waiting',
        attempt: 0,
        defers: 0,
        isDue: true,
        isParked: true,
      } as const
      const target = rowOf(after, event)
      Object.assign(target, replayed, { isReplayed: true })
      if (rules.resetsPublished) target.isPublished = false
      const forgotten = { hits: 0, burns: 0, kills: 0, failures: 0, defers: 0, hasLetter: false }
      Object.assign(recordOf(after, event), forgotten)
      giveToken(after, event)
    },
    true,
  )
}

function ofLeases(state: AttemptsState, event: number, add: Add): void {
  const lease = state.leases[event]?.state
  const turnsTo = (label: string, to: AttemptsState['leases'][number]['state']): void =>
    add(label, (after) => {
      const target = after.leases[event]
      if (target !== undefined) target.state = to
    })
  if (lease === 'waiting') turnsTo(`the lease store: e${event} is due`, 'due')
  if (lease === 'live') {
    const isOwned = [...fibersOf(state)].some(({ members }) =>
      members.some((member) => member.event === event && member.hasLease),
    )
    if (!isOwned) turnsTo(`the lease of e${event} expires`, 'expired')
    else if (state.left.expire > 0) {
      add(
        `the lease of e${event} expires while its owner lives`,
        (after) => {
          spend(after, 'expire')
          Object.assign(after.leases[event] ?? {}, { state: 'expired' })
        },
        true,
      )
    }
  }
  if (lease !== 'absent' || state.left.late === 0) return
  add(
    `a late claim of e${event} lands`,
    (after) => {
      spend(after, 'late')
      after.leases[event] = { state: 'live', attempt: 1 }
    },
    true,
  )
}

/** What begins or ends in a process from outside: a crash, a delivery, a poll. */
export function ofProcess(
  state: AttemptsState,
  world: AttemptsWorld,
  { add, index }: { readonly add: Add; readonly index: number },
): void {
  const fibers = state.processes[index]?.fibers ?? []
  if (state.left.crash > 0 && fibers.some((fiber) => fiber !== null)) {
    add(
      `P${index} crashes`,
      (after) => {
        spend(after, 'crash')
        crash(after, world, index)
      },
      true,
    )
  }
  const slot = fibers.indexOf(null)
  if (slot < 0) return
  const start = (after: AttemptsState, members: Member[]): void => {
    const fiber: Fiber = {
      ...{ members, work: [], part: null, at: 'leases', index: 0 },
      ...{ others: [], holds: [], lock: 'none' },
    }
    const process = after.processes[index]
    if (process !== undefined) process.fibers[slot] = fiber
    if (!world.hasLeases) begin(fiber, world)
  }
  for (const offers of offersOf(state, world)) {
    const names = offers.map(
      ({ event, isSuspect, isToPark }) =>
        `e${event}${isSuspect ? ' (suspect)' : ''}${isToPark ? ' to park' : ''}`,
    )
    add(`P${index} receives ${names.join(' and ')}`, (after) => {
      for (const { event, isSuspect } of offers) {
        const copies = after.queue[event]
        if (copies !== undefined) copies[isSuspect ? 1 : 0] -= 1
      }
      start(after, offers.map(toMember('queue')))
    })
  }
  for (const [event, { isDue, isParked, isPublished, state: now }] of state.rows.entries()) {
    const isToRun = (now === 'waiting' && isDue) || now === 'running'
    const isToPublish = world.rules.pollerPublishes && now === 'dead' && !isPublished
    if (!isParked || isLocked(state, event) || !(isToRun || isToPublish)) continue
    add(`P${index} polls the parked e${event}`, (after) =>
      start(after, [toMember('poller')({ event, isSuspect: true, isToPark: false })]),
    )
  }
}

type Offer = Pick<Member, 'event' | 'isSuspect' | 'isToPark'>

const toMember =
  (from: Member['from']) =>
  (offer: Offer): Member => ({
    ...{ ...offer, from, attempt: 0, leaseAttempt: 0, hasLease: false },
    ...{ hasToken: false, hasFailed: false, isSettled: false },
  })

/** What a process may receive at once. */
function offersOf(
  { queue }: AttemptsState,
  { isBatch, mayPark }: AttemptsWorld,
): readonly Offer[][] {
  const offers = queue.flatMap((copies, event): Offer[] =>
    [false, true].flatMap((isSuspect) =>
      copies[isSuspect ? 1 : 0] > 0 ? [{ event, isSuspect, isToPark: false }] : [],
    ),
  )
  const parked = mayPark ? offers.map((offer) => [{ ...offer, isToPark: true }]) : []
  const alone = [...offers.map((offer) => [offer]), ...parked]
  if (!isBatch) return alone
  const pairs = offers.flatMap((one) =>
    offers.filter((other) => one.event < other.event).map((other) => [one, other]),
  )
  return [...alone, ...pairs]
}
