import { newDelivery } from '@onceward/testing/conformance'
import { describe, expect, it } from 'vitest'
import {
  BODY_OMITTED_HEADER,
  bodyPart,
  isOmitted,
  isOmittedBody,
  isSmall,
  PART_BYTES,
  readDelivery,
  storeDelivery,
} from './delivery-columns.ts'

describe('a stored delivery', () => {
  it('is read as it was, except for the fields of one delivery attempt', () => {
    const delivery = newDelivery({
      item: { index: 3, hasBigints: true },
      contentType: 'text/plain',
      messageId: 'm\0',
      orderingKey: '\ud800',
      producedAt: new Date(1_700_000_000_123),
    })
    const handed = { ...delivery, deliveryCount: 3, redelivered: true, raw: { client: true } }
    expect(readDelivery(storeDelivery(handed, 4 * PART_BYTES))).toEqual(delivery)
  })

  it('within the bound is stored whole: up to one piece in its row', () => {
    for (const [bytes, parts] of [
      [PART_BYTES, 0],
      [PART_BYTES + 1, 2],
      [3 * PART_BYTES, 3],
      [4 * PART_BYTES - 2, 4],
    ] as const) {
      const delivery = newDelivery({ headers: {}, body: new Uint8Array(bytes) })
      const stored = storeDelivery(delivery, 4 * PART_BYTES)
      expect(stored).toMatchObject({ bodyBytes: bytes, bodyParts: parts })
      expect(isOmitted(stored)).toBe(false)
      expect(stored.body === '').toBe(parts > 0)
    }
  })

  it('beyond the bound, with headers and envelope, says how much was left out', () => {
    const body = new Uint8Array(PART_BYTES - 2)
    const large = [
      newDelivery({ headers: {}, body: new Uint8Array(PART_BYTES - 1) }),
      newDelivery({ headers: {}, body, envelope: new Uint8Array(1) }),
      newDelivery({ headers: { a: '' }, body }),
    ]
    for (const delivery of large) {
      const stored = storeDelivery(delivery, PART_BYTES)
      expect(isOmitted(stored)).toBe(true)
      const { body, headers, envelope } = readDelivery(stored)
      expect([body.byteLength, envelope]).toEqual([0, undefined])
      expect(headers).toEqual({ [BODY_OMITTED_HEADER]: String(delivery.body.byteLength) })
    }
  })

  it('has no fields that the delivery does not have', () => {
    const { body, headers, source } = newDelivery()
    const read = readDelivery(storeDelivery({ body, headers, source, raw: {} }, PART_BYTES))
    expect(Object.keys(read).sort()).toEqual(['body', 'headers', 'source'])
  })

  it('is small up to one piece, with its headers', () => {
    const of = (bytes: number) => newDelivery({ headers: {}, body: new Uint8Array(bytes) })
    expect(isSmall(of(PART_BYTES - 2))).toBe(true)
    expect(isSmall(of(PART_BYTES - 1))).toBe(false)
  })

  // Red when a piece is lost or stored twice: the delivery that is replayed is not the one that came.
  it('has pieces that are its body when put together', () => {
    const body = Uint8Array.from({ length: 2 * PART_BYTES + 5 }, (_, place) => place % 251)
    // A view into a larger buffer, as clients hand over.
    const view = new Uint8Array([9, ...body, 9].length)
    view.set(body, 1)
    const handed = view.subarray(1, body.length + 1)
    const parts = [0, 1, 2].map((part) => Buffer.from(bodyPart(handed, part), 'base64'))
    expect(parts.map(({ byteLength }) => byteLength)).toEqual([PART_BYTES, PART_BYTES, 5])
    expect(Buffer.concat(parts).equals(body)).toBe(true)
  })

  it('says in SQL by the same columns whether it was too large', () => {
    const columns = isOmittedBody('letter').match(/letter\.\w+\)? [=>] 0/g)
    expect(columns).toEqual([
      ...['letter.body) = 0', 'letter.body_bytes > 0', 'letter.body_parts = 0'],
    ])
  })

  it('keeps its envelope byte for byte', () => {
    const envelope = Uint8Array.from({ length: 256 }, (_, index) => index)
    const delivery = newDelivery({ envelope })
    expect(readDelivery(storeDelivery(delivery, PART_BYTES))).toEqual(delivery)
  })

  // Red when the value makes the store fail: the event never ends, and looks like an outage of the database.
  it('keeps the texts of headers and of its source that have a value without a JSON form', () => {
    const cycle: Record<string, unknown> = {}
    cycle['cycle'] = cycle
    for (const odd of [1n, cycle]) {
      const headers = { odd, trace: 'abc' } as never
      const source = { broker: 'own', queue: 'orders', position: odd } as never
      const stored = storeDelivery(newDelivery({ headers, source }), PART_BYTES)
      expect(readDelivery(stored)).toMatchObject({ headers: { trace: 'abc' } })
      expect(readDelivery(stored).source).toEqual({ broker: 'own', queue: 'orders' })
    }
  })

  it('with an empty body is no omitted one', () => {
    const stored = storeDelivery(newDelivery({ body: new Uint8Array(0) }), PART_BYTES)
    expect(isOmitted(stored)).toBe(false)
  })

  it('with an impossible date has none', () => {
    const stored = storeDelivery(newDelivery({ producedAt: new Date(Number.NaN) }), PART_BYTES)
    expect(readDelivery(stored).producedAt).toBeUndefined()
  })
})
