import { expect, test } from 'vitest'
import { toDelivery } from '../memory/to-delivery.ts'
import { byOrderingKey, type Delivered, SharedSlots, toBatches } from './ordering.ts'

interface Named extends Delivered {
  readonly name: string
}

const named = (name: string, orderingKey?: string): Named => ({
  name,
  delivery: toDelivery(name, { orderingKey }),
})
const namesOf = (groups: readonly (readonly Named[])[]): readonly string[] =>
  groups.map((group) => group.map(({ name }) => name).join(''))

test('deliveries of one ordering key are one group in order of arrival, the others are alone', () => {
  const received = [
    named('a', 'left'),
    named('b'),
    named('c', 'right'),
    named('d', 'left'),
    named('e'),
  ]
  expect(namesOf(byOrderingKey(received))).toEqual(['ad', 'b', 'c', 'e'])
})

test.each([
  [1, ['ab', 'c', 'def', 'g']],
  [2, ['ab', 'c', 'def', 'g']],
  [3, ['abc', 'def', 'g']],
  [4, ['abc', 'defg']],
])('batches of at most %i hold whole groups, in order', (size, batches) => {
  const groups = ['ab', 'c', 'def', 'g'].map((names) => [...names].map((name) => named(name)))
  expect(namesOf(toBatches(groups, size))).toEqual(batches)
  // The groups stay as they are.
  expect(namesOf(groups)).toEqual(['ab', 'c', 'def', 'g'])
})

test('a slot is free once the settlement of each delivery that shares it is known', () => {
  const [a, b, c] = [named('a'), named('b'), named('c')]
  const slots = new SharedSlots([[a, b], [c]])
  expect(slots.busy).toBe(2)
  expect([slots.known(b), slots.known(c), slots.known(a)]).toEqual([false, true, true])
})
