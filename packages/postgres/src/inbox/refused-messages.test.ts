import { newDelivery } from '@onceward/testing/conformance'
import { describe, expect, it } from 'vitest'
import { refusedId } from './refused-messages.ts'

const delivery = newDelivery({ headers: { b: '2', a: '1' }, messageId: 'm' })

describe('the id of a refused message', () => {
  it('is the same for every delivery of the message', () => {
    const again = {
      ...delivery,
      headers: { a: '1', b: '2', 'x-death': 'counted', 'x-delivery-count': '2' },
      deliveryCount: 2,
      redelivered: true,
      producedAt: new Date(0),
      raw: {},
    }
    expect(refusedId(1, again)).toBe(refusedId(1, delivery))
  })

  it('differs between messages, places and consumers', () => {
    const source = delivery.source
    const others = [
      refusedId(1, delivery),
      refusedId(2, delivery),
      refusedId(1, { ...delivery, body: new Uint8Array([1]) }),
      refusedId(1, { ...delivery, headers: { a: '1' } }),
      refusedId(1, { ...delivery, messageId: 'n' }),
      refusedId(1, { ...delivery, source: { ...source, queue: 'other' } }),
      refusedId(1, { ...delivery, source: { ...source, position: 'other' } }),
    ]
    expect(new Set(others).size).toBe(others.length)
    expect(others[0]).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
  })
})
