import { bad, isLocked, recordOf, rowOf } from './attempts-rows.ts'
import type { AttemptsState, Fiber, Member } from './attempts-state.ts'
import type { Turn } from './attempts-turn.ts'

/** The letter, the lease and the broker's copy of one member after the other. */
export function settle(turn: Turn): void {
  const index = turn.fiber.members.findIndex(({ isSettled }) => !isSettled)
  const member = turn.fiber.members[index]
  if (member === undefined) return
  if (member.result === 'publish' && publish(turn, index, member)) return
  if (member.hasLease) {
    endLease(turn, index, member)
    return
  }
  const { event, from, result } = member
  turn.step(`settles e${event}: ${result}`, (after, fiber, process) => {
    if (result === 'ack' || result === 'publish' || result === 'lease-dead') {
      judgeAck(after, member)
    } else if (from === 'queue') {
      const copies = after.queue[event]
      if (copies !== undefined) copies[1] += 1
    }
    change(fiber, index, { isSettled: true })
    if (fiber.members.every(({ isSettled }) => isSettled)) process.fibers[turn.slot] = null
  })
}

function judgeAck(state: AttemptsState, { event, from, result }: Member): void {
  const row = rowOf(state, event)
  if (result === 'lease-dead' && recordOf(state, event).effects > 0)
    bad('a committed effect reported as dead')
  const isSafe = row.state === 'done' || row.state === 'dead' || row.isParked
  if (from === 'queue' && !isSafe) bad('acked and lost')
}

/** False if nothing is left to publish. */
function publish({ step, world }: Turn, index: number, { event, letter }: Member): boolean {
  const { publishesLocked, rereadsLetter } = world.rules
  if (publishesLocked && letter === undefined) {
    step(`takes the right to publish e${event}`, (after, fiber) => {
      const row = rowOf(after, event)
      if (isLocked(after, event, fiber) || row.state !== 'dead')
        change(fiber, index, { result: 'abandon' })
      else if (row.isPublished) change(fiber, index, { result: 'ack' })
      else {
        fiber.holds = [event]
        change(fiber, index, { letter: 'locked' })
      }
    })
  } else if (letter === undefined || letter === 'locked') {
    step(`publishes e${event}`, (after, fiber) => {
      if (rereadsLetter && rowOf(after, event).state !== 'dead')
        return change(fiber, index, { result: 'abandon' })
      const record = recordOf(after, event)
      if (record.effects > 0) bad('a committed effect published as dead')
      record.hasLetter = true
      change(fiber, index, { letter: 'told' })
    })
  } else if (letter === 'told') {
    step(`marks e${event} as published`, (after, fiber) => {
      const row = rowOf(after, event)
      if (row.state === 'dead') row.isPublished = true
      fiber.holds = []
      change(fiber, index, { letter: 'marked' })
    })
  } else return false
  return true
}

function endLease({ step, world }: Turn, index: number, member: Member): void {
  const { event, hasFailed, result } = member
  step(`ends the lease of e${event}: ${result}`, (after, fiber) => {
    const lease = after.leases[event]
    if (lease === undefined) return
    change(fiber, index, { hasLease: false })
    if (result === 'ack') lease.state = rowOf(after, event).state === 'done' ? 'done' : 'absent'
    else if (result === 'publish') lease.state = world.rules.leasesKeepDead ? 'dead' : 'absent'
    else if (hasFailed) lease.state = 'waiting'
    else {
      lease.attempt -= 1
      lease.state = lease.attempt > 0 ? 'due' : 'absent'
    }
    if (lease.state === 'absent') lease.attempt = 0
  })
}

function change(fiber: Fiber, index: number, to: Partial<Member>): void {
  Object.assign(fiber.members[index] ?? {}, to)
}
