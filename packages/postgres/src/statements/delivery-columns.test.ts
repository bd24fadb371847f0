import { newDelivery } from '@onceward/testing/conformance'
import { describe, expect, it } from 'vitest'
import {
  BODY_OMITTED_HEADER,
  isOmitted,
  MAX_STORED_BYTES,
  readDelivery,
  storeDelivery,
} from './delivery-columns.ts'

describe('a stored delivery', () => {
  it('is read as it was, except for the fields of one delivery attempt', () => {
    const delivery = newDelivery({
      contentType: 'text/plain',
      messageId: 'm\0',
      orderingKey: '\ud800',
      producedAt: new Date(1_700_000_000_123),
    })
    const handed = { ...delivery, deliveryCount: 3, redelivered: true, raw: { client: true } }
    expect(readDelivery(storeDelivery(handed))).toEqual(delivery)
  })

  it('of the largest size is stored in full', () => {
    const headers = {}
    const stored = storeDelivery(
      newDelivery({ headers, body: new Uint8Array(MAX_STORED_BYTES - 2) }),
    )
    expect(isOmitted(stored)).toBe(false)
    expect(readDelivery(stored).body.byteLength).toBe(MAX_STORED_BYTES - 2)
  })

  it('of a larger size contains the number of omitted bytes', () => {
    const stored = storeDelivery(newDelivery({ body: new Uint8Array(MAX_STORED_BYTES) }))
    expect(isOmitted(stored)).toBe(true)
    const { body, headers } = readDelivery(stored)
    expect(body).toHaveLength(0)
    expect(headers).toEqual({ [BODY_OMITTED_HEADER]: String(MAX_STORED_BYTES) })
  })

  it('with an empty body does not count as omitted', () => {
    const stored = storeDelivery(newDelivery({ body: new Uint8Array(0) }))
    expect(isOmitted(stored)).toBe(false)
  })

  it('with an invalid date has no date', () => {
    const stored = storeDelivery(newDelivery({ producedAt: new Date(Number.NaN) }))
    expect(readDelivery(stored).producedAt).toBeUndefined()
  })
})
