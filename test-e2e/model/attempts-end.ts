import { chains } from './attempts-chain.ts'
import {
  advance,
  bad,
  commit,
  crash,
  eventsOf,
  FORGOTTEN,
  hit,
  isLocked,
  memberOf,
  part,
  readAgain,
  recordOf,
  rowOf,
  setState,
  singles,
  spend,
} from './attempts-rows.ts'
import { givesUp } from './attempts-run.ts'
import type { AttemptsState, AttemptsWorld, Behaviour, Fiber, Member } from './attempts-state.ts'
import type { Turn } from './attempts-turn.ts'

/** From the handler to the stored verdict. */
export function fromRun(turn: Turn): void {
  switch (turn.fiber.at) {
    case 'run':
      run(turn)
      break
    case 'commit':
      commits(turn)
      break
    case 'unknown':
      claimAgain(turn)
      break
    case 'fail':
    case 'bury':
      storeVerdict(turn, turn.fiber.at)
      break
    case 'defer':
      storeDeferral(turn)
      break
    default:
      release(turn)
  }
}

function run(turn: Turn): void {
  const { events, process, state, step, world } = turn
  const find = (behaviour: Behaviour): number | undefined =>
    events.find((event) => world.events[event] === behaviour)
  const killer = find('kills')
  if (killer !== undefined) {
    step(`the handler of e${killer} kills the process`, (after) => {
      const record = recordOf(after, killer)
      record.kills += 1
      if (record.kills > world.maxAttempts + 3) bad('a poison kills without end')
      crash(after, world, state.processes.indexOf(process), killer)
    })
    return
  }
  const [failing, fatal, flaky, waiting] = [
    find('fails'),
    find('fatal'),
    find('flaky'),
    find('waits'),
  ]
  const deferring = find('defers')
  if (deferring !== undefined) defers(turn, deferring)
  else if (failing !== undefined) throws(turn, failing, 'fail')
  else if (fatal !== undefined) throws(turn, fatal, 'bury')
  else if (waiting === undefined || state.rows[waiting + 1]?.state === 'done') {
    step(`the handlers of e${events} return, and COMMIT is sent`, (_, fiber) => {
      if (!world.rules.locksToVerdict) fiber.lock = 'none'
      fiber.at = 'commit'
    })
  }
  if (flaky !== undefined && state.left.fail > 0) throws(turn, flaky, 'fail', true)
  isCutOff(turn)
}

function throws(
  { step, world }: Turn,
  event: number,
  verdict: 'fail' | 'bury',
  isFault = false,
): void {
  const change = (after: AttemptsState, fiber: Fiber) => {
    if (isFault) spend(after, 'fail')
    const now = fiber.part
    // No verdict counts until the event stood alone in its transaction.
    if (now !== null && now.members.length > 1) {
      fiber.work.unshift(...singles(now))
      return advance(fiber, world)
    }
    const record = recordOf(after, event)
    if (isFault) record.failures = Math.min(record.failures + 1, world.maxAttempts)
    fiber.holds = []
    if (!world.rules.locksToVerdict) fiber.lock = 'none'
    fiber.at = verdict
  }
  step(`the handler of e${event} throws (${verdict})`, change, isFault)
}

/** Its word is about its event alone, so it counts also in company. */
function defers({ step, world }: Turn, event: number): void {
  step(`the handler of e${event} defers its event`, (_, fiber) => {
    const now = fiber.part
    if (now !== null && now.members.length > 1) {
      const parts = singles(now)
      const isOf = ({ members: [index = 0] }: (typeof parts)[number]): boolean =>
        memberOf(fiber, index).event === event
      fiber.part = parts.find(isOf) ?? null
      fiber.work.unshift(...parts.filter((each) => !isOf(each)))
    }
    fiber.holds = []
    if (!world.rules.locksToVerdict) fiber.lock = 'none'
    fiber.at = 'defer'
  })
}

/** The attempt is given back, and the deferral counted; after `maxDefers` of them it is a failure. */
function storeDeferral(turn: Turn): void {
  const { events, isBlocked, step, world } = turn
  if (isBlocked) {
    givesUp(turn)
    return
  }
  step(`stores the deferral of e${events}`, (after, fiber) => {
    const index = fiber.part?.members[0] ?? 0
    const member = memberOf(fiber, index)
    const { event } = member
    const [row, record] = [rowOf(after, event), recordOf(after, event)]
    const isClean = fiber.part?.isCounted !== true
    const isMine = isClean ? row.state === 'absent' : isOwner(after, world, member)
    if (!isMine) {
      readAgain(fiber, [index])
      return advance(fiber, world)
    }
    if (row.defers >= world.maxDefers) {
      fiber.at = 'fail'
      return
    }
    if (!isClean) row.attempt -= 1
    row.defers += 1
    record.defers += 1
    if (record.defers > world.maxDefers) bad('deferred more often than allowed')
    setState(after, world, event, 'waiting')
    row.isDue = false
    member.result = 'defer'
    advance(fiber, world)
  })
}

/** A run that ends without a verdict although the process lives. */
function isCutOff({ events, fiber: before, state, step, world }: Turn): void {
  const abandon = (after: AttemptsState, fiber: Fiber): void => {
    for (const index of fiber.part?.members ?? []) memberOf(fiber, index).result = 'abandon'
    if (fiber.part?.isCounted) for (const event of eventsOf(fiber)) hit(after, world, event)
  }
  if (state.left.lost > 0) {
    step(
      `the connection is lost in the run of e${events}`,
      (after, fiber) => {
        spend(after, 'lost')
        after.orphans.push({ holds: fiber.holds, isCommitting: false, behind: [] })
        abandon(after, fiber)
        advance(fiber, world)
      },
      true,
    )
  }
  if (state.left.drain > 0) {
    step(
      `the run of e${events} is aborted by a drain`,
      (after, fiber) => {
        spend(after, 'drain')
        const isCounted = fiber.part?.isCounted === true
        Object.assign(fiber, { holds: [], lock: 'none' })
        abandon(after, fiber)
        if (isCounted) fiber.at = 'release'
        else advance(fiber, world)
      },
      true,
    )
  }
  const isLost = before.part?.members.some((index) => {
    const { hasLease, leaseAttempt } = memberOf(before, index)
    return !hasLease && leaseAttempt > 0
  })
  if (!isLost) return
  step(`the run of e${events} is aborted: its lease is lost`, (after, fiber) => {
    abandon(after, fiber)
    advance(fiber, world)
  })
}

function commits(turn: Turn): void {
  const { events, state, step, world } = turn
  chains(turn)
  step(`COMMIT of e${events} is answered`, (after, fiber) => {
    commit(after, fiber.holds)
    for (const index of fiber.part?.members ?? []) memberOf(fiber, index).result = 'ack'
    advance(fiber, world)
  })
  if (state.left.lost === 0) return
  step(
    `COMMIT of e${events} is not answered`,
    (after, fiber) => {
      spend(after, 'lost')
      after.orphans.push({ holds: fiber.holds, isCommitting: true, behind: [] })
      Object.assign(fiber, { holds: [], at: 'unknown' })
      // Counted apart by the text; here it is a fault that explains the attempt.
      if (fiber.part?.isCounted) for (const event of eventsOf(fiber)) hit(after, world, event)
    },
    true,
  )
}

/** After an unknown commit, on another connection. */
function claimAgain({ events, step, world }: Turn): void {
  step(`claims e${events} again`, (after, fiber) => {
    for (const index of fiber.part?.members ?? []) {
      const member = memberOf(fiber, index)
      if (isLocked(after, member.event, fiber)) member.result = 'defer'
      else if (rowOf(after, member.event).state === 'absent') {
        fiber.work.unshift(part('clean', [index]))
      } else if (world.rules.trustsAnyRow) member.result = 'ack'
      else fiber.work.unshift(part('read', [index]))
    }
    advance(fiber, world)
  })
}

function isOwner(
  state: AttemptsState,
  { rules }: AttemptsWorld,
  { attempt, event, hasToken }: Member,
): boolean {
  if (rules.compares === 'nothing') return true
  const row = rowOf(state, event)
  if (row.state !== 'running') return false
  if (rules.compares === 'token') return hasToken
  return rules.compares === 'state' || row.attempt === attempt
}

function storeVerdict(turn: Turn, verdict: 'fail' | 'bury'): void {
  const { events, isBlocked, step, world } = turn
  if (isBlocked) {
    givesUp(turn)
    return
  }
  step(`stores the verdict of e${events}: ${verdict}`, (after, fiber) => {
    const index = fiber.part?.members[0] ?? 0
    const member = memberOf(fiber, index)
    const row = rowOf(after, member.event)
    const isClean = fiber.part?.isCounted !== true
    const comparesNothing = world.rules.compares === 'nothing'
    const isMine =
      isClean && !comparesNothing ? row.state === 'absent' : isOwner(after, world, member)
    if (!isMine) {
      if (verdict === 'bury' && world.rules.buriesLost) member.result = 'publish'
      else readAgain(fiber, [index])
      return advance(fiber, world)
    }
    if (isClean && row.state === 'absent') row.attempt = 1
    if (verdict === 'bury' || row.attempt >= world.maxAttempts) {
      setState(after, world, member.event, 'dead')
      member.result = 'publish'
    } else {
      setState(after, world, member.event, 'waiting')
      row.isDue = false
      member.result = 'defer'
      member.hasFailed = true
    }
    advance(fiber, world)
  })
}

/** The attempt of a drained run is given back. */
function release({ events, step, world }: Turn): void {
  step(`gives the attempt of e${events} back`, (after, fiber) => {
    for (const index of fiber.part?.members ?? []) {
      const member = memberOf(fiber, index)
      const { event } = member
      const [row, record] = [rowOf(after, event), recordOf(after, event)]
      if (isLocked(after, event, fiber) || !isOwner(after, world, member)) continue
      if (record.hits > 0) record.hits -= 1
      row.attempt -= 1
      const isDeferred = world.rules.keepsDefers && row.defers > 0
      if (row.attempt > 0 || isDeferred || (world.rules.keepsParked && row.isParked)) {
        setState(after, world, event, 'waiting')
        row.isDue = true
      } else {
        setState(after, world, event, 'absent')
        Object.assign(row, FORGOTTEN)
      }
    }
    advance(fiber, world)
  })
}
