import { expect, test, vi } from 'vitest'
import { registerPublisher } from './dead-letter-place.ts'

const source = { broker: 'sqs', queue: 'orders' } as const

test('the poller publishes to a place that is published to, until that ends', () => {
  const end = vi.fn()
  const port = { registerPublisher: vi.fn(() => end) }
  const publish = async (): Promise<void> => undefined
  registerPublisher(port, source, { kind: 'publish', publish } as never)()
  expect(port.registerPublisher.mock.calls).toEqual([[source, publish]])
  expect(end).toHaveBeenCalledTimes(1)
})

test.each(['broker', 'record'] as const)(
  'the poller publishes to no place of the kind %s',
  (kind) => {
    const port = { registerPublisher: vi.fn() }
    registerPublisher(port, source, { kind })()
    expect(port.registerPublisher).not.toHaveBeenCalled()
  },
)
