import { expect, test, vi } from 'vitest'
import { toDelivery } from '../memory/index.ts'
import { registerEnvelopeReader, withRaw } from './adapter-registry.ts'

const stored = (over: object = {}) => ({
  ...toDelivery({}),
  source: { broker: 'envelope-test', queue: 'orders' },
  raw: undefined,
  envelope: Uint8Array.of(1),
  ...over,
})

registerEnvelopeReader('envelope-test', ({ envelope }) => ({ read: envelope }))

test('a stored delivery gets the message of its client', () => {
  const onUnreadable = vi.fn()
  const delivery = stored()
  expect(withRaw(delivery, onUnreadable)).toEqual({ ...delivery, raw: { read: Uint8Array.of(1) } })
  expect(onUnreadable).not.toHaveBeenCalled()
})

test.each<[string, object]>([
  ['has its message', { raw: { own: true } }],
  ['has no envelope', { envelope: undefined }],
  ['is of a broker without an adapter', { source: { broker: 'nobody', queue: 'orders' } }],
])('a delivery that %s stays as it is', (_what, over) => {
  const onUnreadable = vi.fn()
  const delivery = stored(over)
  expect(withRaw(delivery, onUnreadable)).toBe(delivery)
  expect(onUnreadable).not.toHaveBeenCalled()
})

test('an envelope that cannot be read is told, and the delivery stays as it is', () => {
  const error = new Error('version 2')
  registerEnvelopeReader('envelope-of-tomorrow', () => {
    throw error
  })
  const onUnreadable = vi.fn()
  const delivery = stored({ source: { broker: 'envelope-of-tomorrow', queue: 'orders' } })
  expect(withRaw(delivery, onUnreadable)).toBe(delivery)
  expect(onUnreadable.mock.calls).toEqual([[error]])
})
