import { expect, test } from 'vitest'
import { boundedSources, destinationName, sourceAttributes } from './sources.ts'

test.each([
  ['sqs', 'https://sqs.eu-west-1.amazonaws.com/123456789/orders', 'orders'],
  // The name of a queue of RabbitMQ may have any character.
  ['amqp', 'shop/orders', 'shop/orders'],
  ['kafka', 'q'.repeat(300), 'q'.repeat(256)],
])(
  'the destination on %s is the name of the queue, at most 256 characters',
  (broker, queue, name) => {
    expect(destinationName({ broker, queue })).toBe(name)
  },
)

test('a broker of your own keeps its name, at most 256 characters', () => {
  const attributes = sourceAttributes({ broker: 'b'.repeat(300), queue: 'orders' })
  expect(attributes['messaging.system.name']).toBe('b'.repeat(256))
})

test('the same source has the same object, so that its series begin once', () => {
  const sourceOf = boundedSources(1)
  const first = sourceOf({ broker: 'sqs', queue: 'orders' })
  expect(sourceOf({ broker: 'sqs', queue: 'orders' })).toBe(first)
  const other = sourceOf({ broker: 'kafka', queue: 'orders' })
  expect(other).toEqual({
    'messaging.system.name': '_OTHER',
    'messaging.destination.name': '_OTHER',
  })
})
