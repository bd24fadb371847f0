import { type Delivery, FatalError } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { type Billing, charge, openBilling, orderPlaced } from '../traps/billing.ts'

let billing: Billing

beforeAll(async () => {
  billing = await openBilling()
})
afterAll(() => billing[Symbol.asyncDispose]())

/** The consumer is still alive after everything before. */
let alive = 0
afterEach(async () => {
  alive += 1
  const guard = billing.guard(charge)
  expect(await guard.process(orderPlaced(`alive-${alive}`))).toMatchObject({ by: 'processed' })
})

async function storedBody(): Promise<Buffer> {
  const body = await billing.value(
    'select body from onceward.refused_messages order by last_failed_at desc limit 1',
  )
  return body as Buffer
}

const raw = (bytes: Uint8Array, overrides: Partial<Delivery> = {}): Delivery =>
  toDelivery(null, { body: bytes, ...overrides })

test.each([
  ['is no JSON', Buffer.from('{"order": ')],
  ['is no UTF-8', Buffer.from([0x7b, 0xff, 0xfe, 0x7d])],
  ['is full of NULs', Buffer.alloc(1_000)],
  ['is 256 KiB of nonsense', Buffer.alloc(262_144, 0x61)],
])('a body that %s is refused with its bytes kept', async (_, body) => {
  const settlement = await billing.guard(charge).process(raw(body))
  expect(settlement).toMatchObject({
    kind: 'dead-letter',
    reason: 'invalid-payload',
    error: { code: 'ONCEWARD_INVALID_PAYLOAD' },
  })
  expect(Buffer.compare(await storedBody(), body)).toBe(0)
})

test('an empty body is the payload null', async () => {
  let payload: unknown = 'none'
  const guard = billing.guard((event) => {
    payload = event.payload
  })
  expect(await guard.process(raw(new Uint8Array()))).toMatchObject({ by: 'processed' })
  expect(payload).toBeNull()
})

test('a body of 256 KiB is processed and dead-lettered in full', async () => {
  const text = 'x'.repeat(262_000)
  let length = 0
  const guard = billing.guard((event) => {
    length = String(event.payload).length
    throw new FatalError('never')
  })
  const delivery = toDelivery(text)
  expect(await guard.process(delivery)).toMatchObject({ reason: 'fatal' })
  expect(length).toBe(262_000)
  const stored = await billing.value(
    'select octet_length(body) from onceward.failed_events order by last_failed_at desc limit 1',
  )
  expect(stored).toBe(delivery.body.length)
})

test('a payload that does not fit the schema is refused with an error that says what is wrong', async () => {
  const schema = z.object({ orderId: z.string() })
  const guard = billing.guard(charge, { options: { schema } })
  expect(await guard.process(toDelivery({ orderId: 5 }))).toMatchObject({
    kind: 'dead-letter',
    reason: 'invalid-payload',
  })
})

test.each([
  ['missing', {}],
  ['empty', { 'idempotency-key': '' }],
])('a key header that is %s is refused, never acked', async (_, headers) => {
  const settlement = await billing.guard(charge).process(toDelivery({}, { headers }))
  expect(settlement).toMatchObject({ kind: 'dead-letter' })
})

test('a key with a lone surrogate is refused', async () => {
  const delivery = toDelivery({}, { headers: { 'idempotency-key': 'key-\ud800' } })
  expect(await billing.guard(charge).process(delivery)).toMatchObject({
    kind: 'dead-letter',
    reason: 'invalid-payload',
  })
})

test.each([
  ['NUL bytes', 'key\0\0key'],
  ['binary', '\u0001\u0002\u007f\u0080\uffff'],
  ['1024 bytes', 'k'.repeat(1_024)],
  ['more than 1024 bytes', 'k'.repeat(1_025)],
  ['more than 1024 bytes in UTF-8 only', 'é'.repeat(513)],
  ['quotes and backslashes', `'; drop table charges; -- \\`],
  ['any Unicode', '🂡 ключ 鍵 مفتاح'],
])('a key of %s works like any other key', async (_, key) => {
  const guard = billing.guard(() => undefined)
  const delivery = toDelivery({}, { headers: { 'idempotency-key': key } })
  expect(await guard.process(delivery)).toMatchObject({ by: 'processed' })
  expect(await guard.process(delivery)).toMatchObject({ by: 'duplicate' })
})

test('NULs in key, headers, body and error text can be buried, kept and shown', async () => {
  const guard = billing.guard(() => {
    throw new Error('bad \0 text \ud800')
  })
  const delivery = toDelivery(
    { text: 'a\0b' },
    { headers: { 'idempotency-key': 'nul\0key', 'x-\0header': '\0value\ud800' } },
  )
  for (let n = 0; n < 3; n += 1) {
    await guard.process(delivery)
    await billing.age()
  }
  expect(await guard.process(delivery)).toMatchObject({
    kind: 'dead-letter',
    reason: 'attempts-spent',
  })
})

test('__proto__ in a payload pollutes no prototype and is part of the fingerprint', async () => {
  const guard = billing.guard(() => undefined)
  const headers = { 'idempotency-key': 'proto' }
  const one = raw(Buffer.from('{"__proto__":{"admin":true}}'), { headers })
  const two = raw(Buffer.from('{"__proto__":{"admin":false}}'), { headers })
  expect(await guard.process(one)).toMatchObject({ by: 'processed' })
  expect(({} as { admin?: unknown }).admin).toBeUndefined()
  expect(await guard.process(two)).toMatchObject({ reason: 'fingerprint-mismatch' })
})

test('64-bit integers in keys and payloads are never rounded into one', async () => {
  const eventKey = ({ payload }: { readonly payload: unknown }): string =>
    (payload as { readonly id: string }).id
  const guard = billing.guard(() => undefined, { options: { eventKey } })
  expect(await guard.process(raw(Buffer.from('{"id":9007199254740993}')))).toMatchObject({
    kind: 'dead-letter',
    reason: 'invalid-payload',
  })
  const headers = { 'idempotency-key': 'big' }
  const other = billing.guard(() => undefined)
  expect(
    await other.process(raw(Buffer.from('{"n":9007199254740993}'), { headers })),
  ).toMatchObject({ by: 'processed' })
  expect(
    await other.process(raw(Buffer.from('{"n":9007199254740992}'), { headers })),
  ).toMatchObject({ reason: 'fingerprint-mismatch' })
})
