import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { resolveOptions } from '../guard/resolve-options.ts'
import { eventIdOf } from '../identity/event-id.ts'
import { memoryInbox } from '../memory/index.ts'
import { toDelivery } from '../memory/to-delivery.ts'
import type { Delivery } from '../model/delivery.ts'
import { InvalidPayloadError, MissingKeyError } from '../model/errors.ts'
import type { InboxGuardOptions } from '../options/options.ts'
import { type Identified, identify } from './identify.ts'

type Given<Payload> = Partial<InboxGuardOptions<Payload, undefined>>

const byId: Given<{ id: string }> = { eventKey: ({ payload }) => payload.id }

const run = async <Payload>(delivery: Delivery, given: Given<Payload> = {}): Promise<Identified> =>
  identify(delivery, resolveOptions({ consumer: 'billing', inbox: memoryInbox(), ...given }))

const withKey = (key: string, payload: unknown = { a: 1 }): Delivery =>
  toDelivery(payload, { headers: { 'idempotency-key': key } })
const withoutKey = (overrides: Partial<Delivery> = {}): Delivery =>
  toDelivery({ a: 1 }, { headers: {}, ...overrides })
const withBody = (body: Uint8Array | string): Delivery =>
  toDelivery(null, { body: typeof body === 'string' ? Buffer.from(body) : body })

test('an event has its id, key, fingerprint and delivery, and the payload beside', async () => {
  const delivery = withKey('order-1')
  expect(await run(delivery)).toEqual({
    kind: 'identified',
    event: {
      id: eventIdOf('billing', undefined, 'order-1'),
      key: 'order-1',
      tenant: undefined,
      fingerprint: expect.any(BigInt),
      delivery,
    },
    payload: { a: 1 },
    orderingKey: undefined,
  })
})

describe('the order is decode, skip, schema, key, fingerprint', () => {
  const calls = (): { readonly names: string[]; readonly given: Given<number> } => {
    const names: string[] = []
    const given: Given<number> = {
      decode: () => names.push('decode'),
      skip: () => names.push('skip') < 0,
      schema: z.any().transform(() => names.push('schema')),
      eventKey: () => `key-${names.push('key')}`,
      fingerprint: () => names.push('fingerprint'),
    }
    return { names, given }
  }

  test('for an event', async () => {
    const { names, given } = calls()
    expect(await run(withoutKey(), given)).toMatchObject({ kind: 'identified' })
    expect(names).toEqual(['decode', 'skip', 'schema', 'key', 'fingerprint'])
  })

  test('and what is skipped needs neither schema nor key', async () => {
    const { names, given } = calls()
    expect(await run(withoutKey(), { ...given, skip: () => true })).toEqual({ kind: 'skipped' })
    expect(names).toEqual(['decode'])
  })
})

describe('the payload', () => {
  const schema = z.object({ a: z.number(), currency: z.string().default('EUR') })

  test('is what the schema gives back, and a new default leaves the fingerprint as it was', async () => {
    const before = await run(withKey('k'))
    const after = await run(withKey('k'), { schema })
    expect(after).toMatchObject({ payload: { a: 1, currency: 'EUR' } })
    if (before.kind !== 'identified' || after.kind !== 'identified') throw new Error('refused')
    expect(after.event.fingerprint).toBe(before.event.fingerprint)
  })

  test('that does not fit is refused', async () => {
    const refused = await run(withKey('k', { a: 'x' }), { schema })
    expect(refused).toMatchObject({ kind: 'refused', reason: 'invalid-payload' })
    expect(refused).toHaveProperty('error.message', expect.stringContaining('a: '))
  })

  test.each([
    ['no JSON', 'hello'],
    ['no UTF-8', Uint8Array.of(0xff)],
  ])('of %s is refused', async (_name, body) => {
    expect(await run(withBody(body))).toMatchObject({
      kind: 'refused',
      reason: 'invalid-payload',
      error: expect.any(InvalidPayloadError),
    })
  })

  test('of an empty body is null', async () => {
    expect(await run(withBody(''))).toMatchObject({ kind: 'identified', payload: null })
  })

  test('with `__proto__` keys pollutes nothing', async () => {
    const delivery = toDelivery(null, {
      body: Buffer.from(
        '{"__proto__":{"isAdmin":true},"constructor":{"prototype":{"isAdmin":true}}}',
      ),
    })
    expect(await run(delivery)).toMatchObject({ kind: 'identified' })
    expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined()
  })
})

describe('the key', () => {
  test('is that of the first resolver that finds one', async () => {
    const eventKey = [() => undefined, () => 'second', () => 'third']
    expect(await run(withKey('k'), { eventKey })).toMatchObject({ event: { key: 'second' } })
  })

  test('is by default that of the CloudEvent, then the Idempotency-Key', async () => {
    const headers = { ce_source: '/s', ce_id: '1', 'idempotency-key': 'k' }
    expect(await run(toDelivery(1, { headers }))).toMatchObject({
      event: { key: 'cloudevent:2:/s:1:1' },
    })
  })

  test('may be a field of the payload, a safe integer too', async () => {
    expect(await run(toDelivery({ id: 7 }), byId)).toMatchObject({ event: { key: '7' } })
  })

  test.each([
    ['an integer that JSON.parse rounded', '{"id":9007199254740993}'],
    ['empty', '{"id":""}'],
    ['a lone surrogate', '{"id":"\\ud800"}'],
    ['an object', '{"id":{}}'],
  ])('that is %s is refused as an invalid payload', async (_name, body) => {
    expect(await run(withBody(body), byId)).toMatchObject({ reason: 'invalid-payload' })
  })

  test('with NUL in it is a key', async () => {
    expect(await run(withKey('a\u0000b'))).toMatchObject({ event: { key: 'a\u0000b' } })
  })
})

describe('a tenant', () => {
  const tenant = ({ headers }: Delivery) => headers['tenant']

  test('is part of the identity', async () => {
    const delivery = toDelivery(1, { headers: { tenant: 'acme', 'idempotency-key': 'k' } })
    expect(await run(delivery, { tenant })).toMatchObject({
      event: { id: eventIdOf('billing', 'acme', 'k'), tenant: 'acme' },
    })
  })

  test('that is asked for and missing is a missing key, and the key that was found is named', async () => {
    expect(await run(withKey('k'), { tenant })).toMatchObject({
      kind: 'refused',
      reason: 'missing-event-key',
      key: 'k',
    })
  })

  test('that is empty is refused: it would be no tenant', async () => {
    const delivery = toDelivery(1, { headers: { tenant: '', 'idempotency-key': 'k' } })
    expect(await run(delivery, { tenant })).toMatchObject({ reason: 'invalid-payload', key: 'k' })
  })
})

describe('a missing key', () => {
  const source = { broker: 'kafka', queue: 'orders', position: '3/42' }

  test('A11: is refused by default, not passed over', async () => {
    expect(await run(withoutKey({ source }))).toMatchObject({
      kind: 'refused',
      reason: 'missing-event-key',
      error: expect.any(MissingKeyError),
      key: undefined,
    })
  })

  test('is the position in the broker by policy', async () => {
    expect(await run(withoutKey({ source }), { onMissingKey: 'position' })).toMatchObject({
      event: { key: 'position:5:kafka:6:orders:4:3/42' },
    })
    expect(await run(withKey('k'), { onMissingKey: 'position' })).toMatchObject({
      event: { key: 'k' },
    })
  })

  test('without a position either is refused', async () => {
    expect(await run(withoutKey(), { onMissingKey: 'position' })).toMatchObject({
      reason: 'missing-event-key',
    })
  })

  test('runs unguarded by policy, in its lane', async () => {
    const delivery = withoutKey({ orderingKey: 'customer-1' })
    expect(await run(delivery, { onMissingKey: 'unguarded' })).toEqual({
      kind: 'unguarded',
      payload: { a: 1 },
      orderingKey: 'customer-1',
    })
  })
})

describe('the ordering key', () => {
  test("is the broker's, unless a resolver says otherwise", async () => {
    const delivery = { ...withKey('k', { customer: 5 }), orderingKey: 'group' }
    expect(await run(delivery)).toMatchObject({ orderingKey: 'group' })
    const orderingKey = ({ payload }: { payload: { customer: string } }) => payload.customer
    expect(await run<{ customer: string }>(delivery, { orderingKey })).toMatchObject({
      orderingKey: '5',
    })
    expect(await run(delivery, { orderingKey: () => undefined })).toHaveProperty(
      'orderingKey',
      undefined,
    )
  })

  test('that is no text is refused, with the key it came with', async () => {
    const orderingKey = (() => ({})) as unknown as () => string
    expect(await run(withKey('k'), { orderingKey })).toMatchObject({
      reason: 'invalid-payload',
      key: 'k',
    })
  })
})

describe("a function of the user's", () => {
  const broken = (): never => {
    throw new RangeError('broken')
  }
  const schema = z.any().transform(broken)

  test.each([
    ['decode', { decode: broken }],
    ['skip', { skip: broken }],
    ['schema', { schema }],
    ['eventKey', { eventKey: broken }],
    ['tenant', { tenant: broken }],
    ['orderingKey', { orderingKey: broken }],
    ['fingerprint', { fingerprint: broken }],
  ])('that throws makes the message be read again and is named: %s', async (name, given) => {
    const refused = await run(withKey('k'), given)
    expect(refused).toMatchObject({ kind: 'retry', isCounted: true })
    expect(refused).toHaveProperty('error.message', `\`${name}\` threw RangeError: broken`)
    expect(refused).toHaveProperty('error.cause', new RangeError('broken'))
  })

  test('that throws undefined, or rejects, makes it be read again too', async () => {
    const throwsUndefined = () => Promise.reject()
    expect(await run(withKey('k'), { decode: throwsUndefined })).toHaveProperty(
      'error.message',
      '`decode` threw undefined',
    )
  })

  test('that is asynchronous where a value was expected is waited for', async () => {
    const later = <Value>(value: Value) => (async () => value) as unknown as () => Value
    const given: Given<unknown> = {
      skip: later(false),
      eventKey: later('k'),
      fingerprint: later(1),
    }
    const one = await run(withoutKey(), given)
    expect(one).toMatchObject({ kind: 'identified', event: { key: 'k' } })
    const other = await run(withoutKey(), { ...given, fingerprint: later(2) })
    if (one.kind !== 'identified' || other.kind !== 'identified') throw new Error('refused')
    expect(other.event.fingerprint).not.toBe(one.event.fingerprint)
  })

  test('may refuse a message with an error of its own words', async () => {
    const error = new InvalidPayloadError('version 1 is gone')
    const decode = (): never => {
      throw error
    }
    expect(await run(withKey('k'), { decode })).toMatchObject({ error })
  })
})

test('acceptance A9: the order of keys in JSON makes no other event', async () => {
  const [one, other] = await Promise.all(
    ['{"a":1,"b":2}', '{"b":2,"a":1}'].map((text) =>
      run(toDelivery(null, { body: Buffer.from(text), headers: { 'idempotency-key': 'k' } })),
    ),
  )
  if (one?.kind !== 'identified' || other?.kind !== 'identified') throw new Error('refused')
  expect(other.event.fingerprint).toBe(one.event.fingerprint)
})

test('volatile headers never enter the identity', async () => {
  const prints = ['1', '2'].map(async (trace) => {
    const headers = { 'idempotency-key': 'k', traceparent: trace, 'x-death-count': trace }
    const identified = await run(toDelivery(1, { headers, deliveryCount: Number(trace) }))
    return identified.kind === 'identified' ? identified.event.fingerprint : undefined
  })
  const [one, other] = await Promise.all(prints)
  expect(one).toBeDefined()
  expect(other).toBe(one)
})
