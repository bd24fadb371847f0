import { count, countLocked, takeLock } from './attempts-count.ts'
import {
  advance,
  begin,
  eventsOf,
  fibersOf,
  giveToken,
  isLocked,
  memberOf,
  part,
  readAgain,
  rowOf,
  setState,
  singles,
  spend,
} from './attempts-rows.ts'
import type { Turn } from './attempts-turn.ts'

/** Up to the start of the handler. */
export function beforeRun(turn: Turn): void {
  switch (turn.fiber.at) {
    case 'leases':
      takeLease(turn)
      break
    case 'claim':
      claim(turn)
      break
    case 'suspects':
      insertSuspects(turn)
      break
    case 'read':
      read(turn)
      break
    case 'shared':
    case 'exclusive':
      takeLock(turn)
      break
    case 'count':
      count(turn)
      break
    case 'business':
      beginBusiness(turn)
      break
    case 'count locked':
      countLocked(turn)
      break
    default:
      throw new Error(`nothing is to be done at ${turn.fiber.at}`)
  }
}

/** Rows that others hold are not waited for without end. */
export function givesUp({ events, step, world }: Turn): void {
  step(`gives up waiting for the row of e${events}`, (_, fiber) => {
    const now = fiber.part
    if (now !== null && now.members.length > 1) fiber.work.unshift(...singles(now))
    else for (const index of now?.members ?? []) memberOf(fiber, index).result = 'defer'
    advance(fiber, world)
  })
}

function takeLease({ fiber: { index, members }, state, step, world }: Turn): void {
  const event = members[index]?.event ?? 0
  const known = state.leases[event]?.state ?? 'absent'
  step(`claims the lease of e${event}: ${known}`, (after, fiber) => {
    const [lease, member] = [after.leases[event], memberOf(fiber, index)]
    if (lease === undefined) return
    const isTakenOver = known === 'expired' || known === 'due'
    if (isTakenOver && world.rules.leasesCount && lease.attempt >= world.maxAttempts) {
      lease.state = 'dead'
      member.result = 'lease-dead'
    } else if (known === 'absent' || isTakenOver) {
      for (const other of fibersOf(after)) {
        for (const one of other.members) if (one.event === event) one.hasLease = false
      }
      lease.state = 'live'
      lease.attempt += 1
      member.hasLease = true
      member.leaseAttempt = lease.attempt
      member.isSuspect ||= isTakenOver
    } else if (known === 'live' || known === 'waiting') member.result = 'defer'
    else if (known === 'done') member.result = 'ack'
    else if (world.rules.leasesKeepDead) member.result = 'lease-dead'
    fiber.index += 1
    if (fiber.index === fiber.members.length) begin(fiber, world)
  })
  if (state.left.leasesDown === 0) return
  step(
    'asks Postgres alone: the lease store does not answer',
    (after, fiber) => {
      spend(after, 'leasesDown')
      begin(fiber, world)
    },
    true,
  )
}

/** Row by row: the rows before are held while it waits. */
function claim(turn: Turn): void {
  const { fiber: before, state, step, world } = turn
  const index = before.part?.members[before.index] ?? 0
  const { event } = memberOf(before, index)
  if (isLocked(state, event, before)) {
    givesUp(turn)
    return
  }
  step(`claims e${event}: ${rowOf(state, event).state}`, (after, fiber) => {
    const now = fiber.part
    if (now === null) return
    if (rowOf(after, event).state === 'absent') fiber.holds.push(event)
    else fiber.others.push(index)
    fiber.index += 1
    if (fiber.index < now.members.length) return
    const { others } = fiber
    fiber.others = []
    readAgain(fiber, others)
    now.members = now.members.filter((member) => !others.includes(member))
    if (fiber.holds.length === 0) advance(fiber, world)
    else fiber.at = 'shared'
  })
}

/** Suspects without a row are counted before their run. */
function insertSuspects(turn: Turn): void {
  const { events, isBlocked, step, world } = turn
  if (isBlocked) {
    givesUp(turn)
    return
  }
  const { countsInTransaction, takesLeaseAttempt } = world.rules
  step(`counts the suspects e${events}`, (after, fiber) => {
    const [counted, others]: [number[], number[]] = [[], []]
    for (const index of fiber.part?.members ?? []) {
      const member = memberOf(fiber, index)
      const row = rowOf(after, member.event)
      if (row.state !== 'absent') {
        others.push(index)
        continue
      }
      const first = takesLeaseAttempt && member.leaseAttempt > 0 ? member.leaseAttempt : 1
      row.attempt = countsInTransaction ? 0 : first
      setState(after, world, member.event, 'running')
      member.attempt = row.attempt
      giveToken(after, member.event, member)
      counted.push(index)
    }
    readAgain(fiber, others)
    if (counted.length > 0) fiber.work.unshift(part('business', counted, !countsInTransaction))
    advance(fiber, world)
  })
}

function read({ events, state, step, world }: Turn): void {
  const states = events.map((event) => rowOf(state, event).state)
  step(`reads e${events}: ${states}`, (after, fiber) => {
    const [due, alone]: [number[], number[]] = [[], []]
    for (const index of fiber.part?.members ?? []) {
      const member = memberOf(fiber, index)
      const row = rowOf(after, member.event)
      if (row.state === 'done') member.result = 'ack'
      else if (row.state === 'dead') member.result = row.isPublished ? 'ack' : 'publish'
      else if (row.state === 'running') alone.push(index)
      else if (row.state === 'waiting' && row.isDue) {
        const isAlone = world.rules.replaysAlone && row.isReplayed
        const standing = isAlone ? alone : due
        standing.push(index)
      } else member.result = 'defer'
    }
    for (const index of alone) fiber.work.unshift(part('alone', [index]))
    if (due.length > 0) {
      fiber.work.unshift(...(world.isBatch ? [part('retry', due)] : singles(part('retry', due))))
    }
    advance(fiber, world)
  })
}

function beginBusiness(turn: Turn): void {
  const { events, isBlocked, step, world } = turn
  const { claimsAttempt, countsInTransaction } = world.rules
  if (isBlocked) {
    givesUp(turn)
    return
  }
  step(`begins the transaction of e${events}`, (after, fiber) => {
    const now = fiber.part
    const [claimed, again]: [number[], number[]] = [[], []]
    for (const index of now?.members ?? []) {
      const { attempt, event } = memberOf(fiber, index)
      const row = rowOf(after, event)
      const isMine = row.state === 'running' && (!claimsAttempt || row.attempt === attempt)
      const isDue = countsInTransaction && row.state === 'waiting' && row.isDue
      if (isMine || isDue) {
        claimed.push(index)
        row.isYoung = false
      } else again.push(index)
    }
    readAgain(fiber, again)
    if (now === null || claimed.length === 0) return advance(fiber, world)
    now.members = claimed
    fiber.holds = eventsOf(fiber)
    if (countsInTransaction && !now.isCounted) fiber.at = 'count locked'
    else fiber.at = now.kind === 'alone' ? 'run' : 'shared'
  })
}
