import { expect, test } from 'vitest'
import { newEvent } from '../fixtures/inbox.ts'
import { overtaking, type PendingEvent, toPendingEvent } from './pending-event.ts'

/** Events in delivery order. The first letter of a name is its lane; `-` is no lane. */
function inOrder(...names: readonly string[]): ReadonlyMap<string, PendingEvent> {
  return new Map(
    names.map((name) => {
      const lane = name.startsWith('-') ? undefined : name.slice(0, 1)
      const member = { event: newEvent(), payload: name, lane, suspect: false }
      return [name, toPendingEvent(member)]
    }),
  )
}

test.each([
  ['nothing, if all run', ['a1', 'b1', 'a2'], []],
  ['every event behind one of its lane that does not run', ['b1', 'a2', 'b2', 'a3'], ['a2', 'a3']],
  ['nothing behind an event of another lane', ['b1', 'b2'], []],
  ['nothing, if the first events of the lanes run', ['a1', 'b1', 'a2'], []],
  ['only what is behind the gap', ['a1', 'b2', 'a3'], ['b2', 'a3']],
  ['no event without a lane', ['-1', '-2'], []],
] as const)('events that would overtake their lane: %s', (_, going, early) => {
  const all = inOrder('a1', '-1', 'b1', '-2', 'a2', 'b2', 'a3')
  const some = going.map((name) => all.get(name) as PendingEvent)
  const names = overtaking(all.values(), some).map(({ member }) => member.payload)
  expect(names).toEqual(early)
})
