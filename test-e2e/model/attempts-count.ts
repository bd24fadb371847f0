import {
  advance,
  giveToken,
  isLocked,
  memberOf,
  part,
  readAgain,
  rowOf,
  setState,
} from './attempts-rows.ts'
import type { Process } from './attempts-state.ts'
import type { Turn } from './attempts-turn.ts'

/** The fair read/write lock of a process. Only its running fibers hold it. */
export function takeLock({ events, fiber: { at }, process, slot, step, world }: Turn): void {
  const isExclusive = at === 'exclusive'
  const isWaiting = process.waiters.includes(slot)
  const isCounted = world.rules.countsBeforeWait || world.rules.countsInTransaction
  const leave = (waiting: Process): void => {
    waiting.waiters = waiting.waiters.filter((waiter) => waiter !== slot)
  }
  if (isGrantable(process, slot, isExclusive)) {
    step(isExclusive ? `is alone for e${events}` : `runs e${events}`, (_, fiber, mine) => {
      leave(mine)
      fiber.lock = isExclusive ? 'exclusive' : 'shared'
      if (!isExclusive) fiber.at = 'run'
      else fiber.at = isCounted ? 'business' : 'count'
    })
  } else if (!isWaiting) {
    step(`waits for the lock for e${events}`, (_after, _fiber, mine) => {
      mine.waiters.push(slot)
    })
  }
  if (!isExclusive || !isWaiting || !world.rules.boundsWait) return
  step(`waits no longer to be alone for e${events}`, (_, fiber, mine) => {
    leave(mine)
    for (const index of fiber.part?.members ?? []) memberOf(fiber, index).result = 'defer'
    advance(fiber, world)
  })
}

function isGrantable({ fibers, waiters }: Process, slot: number, isExclusive: boolean): boolean {
  const others = fibers.filter((fiber, index) => fiber !== null && index !== slot)
  const at = waiters.indexOf(slot)
  const before = at < 0 ? waiters : waiters.slice(0, at)
  if (isExclusive) return before.length === 0 && others.every((other) => other?.lock === 'none')
  const isBehind = before.some((waiter) => fibers[waiter]?.at === 'exclusive')
  return !isBehind && others.every((other) => other?.lock !== 'exclusive')
}

export function count({ events, step, world }: Turn): void {
  const { maxAttempts, rules } = world
  step(`counts e${events}`, (after, fiber) => {
    const [counted, again]: [number[], number[]] = [[], []]
    const isAlone = fiber.part?.kind === 'alone'
    for (const index of fiber.part?.members ?? []) {
      const member = memberOf(fiber, index)
      const row = rowOf(after, member.event)
      const isRunning = row.state === 'running'
      const isPastLock = rules.locksOther && isRunning && row.attempt < maxAttempts
      const isHeld = isLocked(after, member.event, fiber) && !isPastLock
      const isRunnable = (row.state === 'waiting' && row.isDue) || (isRunning && isAlone)
      if (isHeld || (rules.trustsYoung && isRunning && row.isYoung)) member.result = 'defer'
      else if (!isRunnable && (rules.rechecks || row.state === 'absent')) again.push(index)
      else if (row.attempt >= maxAttempts) {
        setState(after, world, member.event, 'dead')
        member.result = 'publish'
      } else {
        row.attempt += 1
        setState(after, world, member.event, 'running')
        member.attempt = row.attempt
        giveToken(after, member.event, member)
        counted.push(index)
      }
    }
    readAgain(fiber, again)
    if (counted.length === 0) return advance(fiber, world)
    fiber.part = part(isAlone ? 'alone' : 'business', counted, true)
    fiber.at = isAlone && rules.countsBeforeWait ? 'exclusive' : 'business'
  })
}

export function countLocked({ events, step, world }: Turn): void {
  step(`counts e${events} under the row lock`, (after, fiber) => {
    const now = fiber.part
    if (now === null) return
    const isSpent = (index: number): boolean =>
      rowOf(after, memberOf(fiber, index).event).attempt >= world.maxAttempts
    const spent = now.members.filter(isSpent)
    if (spent.length > 0) {
      const rest = now.members.filter((index) => !isSpent(index))
      for (const index of spent) {
        fiber.work.unshift(part('read', [index]))
        setState(after, world, memberOf(fiber, index).event, 'dead')
      }
      if (rest.length > 0) fiber.work.unshift(part(now.kind, rest))
      return advance(fiber, world)
    }
    for (const index of now.members) {
      const member = memberOf(fiber, index)
      const row = rowOf(after, member.event)
      row.attempt += 1
      setState(after, world, member.event, 'running')
      row.isYoung = false
      member.attempt = row.attempt
      giveToken(after, member.event, member)
    }
    now.isCounted = true
    fiber.at = now.kind === 'alone' ? 'run' : 'shared'
  })
}
