import {
  advance,
  commit,
  eventsOf,
  hit,
  isLocked,
  memberOf,
  readAgain,
  recordOf,
  ridersOf,
  rowOf,
  spend,
} from './attempts-rows.ts'
import type { AttemptsState, AttemptsWorld, Fiber } from './attempts-state.ts'
import type { Turn } from './attempts-turn.ts'

/** The text that commits one event begins the next one, which waits for a connection of the same process. */
export function chains(turn: Turn): void {
  const { events, process, state, step, world } = turn
  for (const slot of ridersOf(process, world)) {
    const rider = process.fibers[slot] as Fiber
    const next = eventsOf(rider)
    // A row that another transaction holds ends the text behind COMMIT. The rider then begins the usual way.
    const isFree = next.every((event) => events.includes(event) || !isLocked(state, event, rider))
    if (isFree) {
      step(
        `COMMIT of e${events} is answered, and e${next} is begun with it`,
        (after, fiber, mine) => {
          commit(after, fiber.holds)
          for (const index of fiber.part?.members ?? []) memberOf(fiber, index).result = 'ack'
          advance(fiber, world)
          beginBehind(after, mine.fibers[slot] as Fiber, world)
        },
      )
    }
    answersRollback(turn, slot)
    if (state.left.lost === 0) continue
    step(
      `COMMIT of e${events}, which begins e${next} too, is not answered`,
      (after, fiber) => {
        spend(after, 'lost')
        after.orphans.push({ holds: fiber.holds, isCommitting: true, behind: next })
        Object.assign(fiber, { holds: [], at: 'unknown' })
        if (fiber.part?.isCounted) for (const event of eventsOf(fiber)) hit(after, world, event)
      },
      true,
    )
  }
}

/** The handler has hidden a failed statement, so COMMIT rolls back, is no error, and the text goes on. */
function answersRollback({ events, state, step, world }: Turn, slot: number): void {
  const [event] = events
  if (event === undefined || world.events[event] !== 'flaky' || state.left.fail === 0) return
  step(
    `COMMIT of e${events} is answered by ROLLBACK, and the next one is begun with it`,
    (after, fiber, mine) => {
      spend(after, 'fail')
      const record = recordOf(after, event)
      record.failures = Math.min(record.failures + 1, world.maxAttempts)
      fiber.holds = []
      if (world.rules.readsTag) fiber.at = 'fail'
      else {
        for (const index of fiber.part?.members ?? []) memberOf(fiber, index).result = 'ack'
        advance(fiber, world)
        beginBehind(after, mine.fibers[slot] as Fiber, world)
      }
    },
    true,
  )
}

function beginBehind(state: AttemptsState, rider: Fiber, world: AttemptsWorld): void {
  const now = rider.part
  if (now === null) return
  const isAbsent = (index: number): boolean =>
    rowOf(state, memberOf(rider, index).event).state === 'absent'
  readAgain(
    rider,
    now.members.filter((index) => !isAbsent(index)),
  )
  now.members = now.members.filter(isAbsent)
  if (now.members.length === 0) advance(rider, world)
  else Object.assign(rider, { holds: eventsOf(rider), at: 'shared' })
}

/** A server that goes on with the text of a dead client holds what stands behind COMMIT until it notices. */
export function goOn(state: AttemptsState, behind: readonly number[]): void {
  if (behind.some((event) => isLocked(state, event))) return
  const holds = behind.filter((event) => rowOf(state, event).state === 'absent')
  if (holds.length > 0) state.orphans.push({ holds, isCommitting: false, behind: [] })
}
