import { advance, isLocked, memberOf, rowOf } from './attempts-rows.ts'
import { givesUp } from './attempts-run.ts'
import type { Row } from './attempts-state.ts'
import type { Turn } from './attempts-turn.ts'

/**
 * In place of a run: stores the delivery, and the caller gets its answer. A process that is to run the event by the same
 * code may work beside it: the setting is changed one process at a time.
 */
export function park(turn: Turn): void {
  const { fiber, state } = turn
  const { event } = memberOf(fiber, 0)
  if (fiber.at === 'park read') readParked(turn, rowOf(state, event))
  // A row that is committed is not waited for; one that is inserted by an open transaction is.
  else if (isLocked(state, event, fiber) && (fiber.at === 'park known' || isAbsent(turn)))
    givesUp(turn)
  else if (fiber.at === 'park known') parkKnown(turn)
  else parkNew(turn)
}

const isAbsent = ({ fiber, state }: Turn): boolean =>
  rowOf(state, memberOf(fiber, 0).event).state === 'absent'

function parkNew(turn: Turn): void {
  const { event } = memberOf(turn.fiber, 0)
  turn.step(`parks e${event} unless it has a row`, (after, fiber) => {
    const row = rowOf(after, event)
    if (row.state !== 'absent') {
      fiber.at = 'park read'
      return
    }
    Object.assign(row, { state: 'waiting', isDue: true, isParked: true })
    conclude(turn, fiber, 'ack')
  })
}

function readParked(turn: Turn, { isParked, state }: Row): void {
  const { event } = memberOf(turn.fiber, 0)
  const isOpen = state === 'waiting' || state === 'running'
  turn.step(`reads e${event}: ${state}${isParked ? ', parked' : ''}`, (_, fiber) => {
    if (state === 'absent') fiber.at = 'park'
    else if (isOpen && !isParked && turn.world.rules.parksKnown) fiber.at = 'park known'
    else conclude(turn, fiber, 'ack')
  })
}

function parkKnown(turn: Turn): void {
  const { event } = memberOf(turn.fiber, 0)
  turn.step(`gives the delivery to e${event}`, (after, fiber) => {
    const row = rowOf(after, event)
    const isOpen = row.state === 'waiting' || row.state === 'running'
    if (row.isParked || (!isOpen && turn.world.rules.parksOpen)) {
      fiber.at = 'park'
      return
    }
    // Without its row, the delivery has no place.
    if (row.state !== 'absent') row.isParked = true
    conclude(turn, fiber, 'ack')
  })
}

function conclude({ world }: Turn, fiber: Turn['fiber'], result: 'ack'): void {
  memberOf(fiber, 0).result = result
  advance(fiber, world)
}
