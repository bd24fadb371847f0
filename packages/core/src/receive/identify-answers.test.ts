import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { systemRuntime } from '../concurrency/system-runtime.ts'
import { resolveOptions } from '../guard/resolve-options.ts'
import { memoryInbox } from '../memory/index.ts'
import { toDelivery } from '../memory/to-delivery.ts'
import { cloudEventKey } from '../messages/resolvers.ts'
import type { DecodedDelivery, Delivery } from '../model/delivery.ts'
import type { Runtime } from '../model/runtime.ts'
import type { InboxGuardOptions } from '../options/options.ts'
import { type Identified, identify } from './identify.ts'

type Given = Partial<InboxGuardOptions<unknown, undefined>>

const run = async (delivery: Delivery, given: Given = {}): Promise<Identified> =>
  identify(delivery, resolveOptions({ consumer: 'billing', inbox: memoryInbox(), ...given }))

const withKey = (payload: unknown = { a: 1 }): Delivery =>
  toDelivery(payload, { headers: { 'idempotency-key': 'k' } })

describe('the resolvers of the key', () => {
  const none = async (): Promise<undefined> => undefined
  const second = async (): Promise<string> => 'second'
  const third = (): string => 'third'

  test.each([
    ['promise', { eventKey: [none, second, third] }],
    ['return null', { eventKey: [() => null, () => 'second', third] }],
    ['promise null', { eventKey: [async () => null, none, second] }],
  ])('are asked in turn when they %s, up to the first that finds one', async (_name, given) => {
    expect(await run(withKey(), given as unknown as Given)).toMatchObject({
      event: { key: 'second' },
    })
  })

  test('find nothing if the last of them promises nothing', async () => {
    const eventKey = [none, none] as unknown as NonNullable<Given['eventKey']>
    expect(await run(withKey(), { eventKey })).toMatchObject({ reason: 'missing-event-key' })
  })
})

test('all resolvers of a message see the same copy of it', async () => {
  const seen: object[] = []
  const see = (delivery: DecodedDelivery<unknown>): string => `${seen.push(delivery)}`
  await run(withKey(), { eventKey: see, tenant: see, orderingKey: see })
  expect(seen).toHaveLength(3)
  expect(new Set(seen).size).toBe(1)
})

test('a resolver that asks cloudEventKey() finds what the schema drops from the payload', async () => {
  const event = { specversion: '1.0', source: '/orders', id: '42', data: { a: 1 } }
  const schema = z.object({ data: z.object({ a: z.number() }) })
  const eventKey = (delivery: DecodedDelivery<unknown>) => cloudEventKey()(delivery)
  expect(await run(toDelivery(event), { schema, eventKey })).toMatchObject({
    event: { key: 'cloudevent:7:/orders:2:42' },
    payload: { data: { a: 1 } },
  })
})

// Red when the fingerprint is taken after the schema: validators such as Ajv write defaults into the value they were given,
// and a redelivery that comes after a new default is a conflict.
test.each([
  ['a short message', { a: 1 }],
  ['a message that is hashed in several turns', { a: 1, text: 'x'.repeat(100_000) }],
])('the schema of %s may change it in place, and the fingerprint stays', async (_name, body) => {
  const schema: Given['schema'] = {
    '~standard': {
      ...{ version: 1, vendor: 'in place' },
      validate: (value) => ({ value: Object.assign(Object(value), { currency: 'EUR' }) }),
    },
  }
  const [before, after] = [await run(withKey(body)), await run(withKey(body), { schema })]
  expect(after).toMatchObject({ payload: { a: 1, currency: 'EUR' } })
  if (before.kind !== 'identified' || after.kind !== 'identified') throw new Error('refused')
  expect(after.event.fingerprint).toBe(before.event.fingerprint)
})

test.each([undefined, null])('skip that answers %s skips nothing', async (answer) => {
  const skip = () => answer as unknown as boolean
  expect(await run(withKey(), { skip })).toMatchObject({ kind: 'identified' })
})

describe('a message that takes longer than deadlineMs to read is read to its end', () => {
  const runtime: Runtime = {
    ...systemRuntime,
    setTimer: (callback) => {
      const timer = setImmediate(callback)
      return () => clearImmediate(timer)
    },
  }

  test.each([
    ['with long text', 'x'.repeat(500_000)],
    ['with a long number', '#'],
  ])('%s', async (_name, text) => {
    const number = `1.${'01'.repeat(500_000)}`
    const body = Buffer.from(text === '#' ? `{"a":${number}}` : JSON.stringify({ text }))
    const delivery = { ...withKey(), body }
    expect(await run(delivery, { runtime })).toMatchObject({ kind: 'identified' })
  })

  // Red when the time of the functions that follow is not bounded any more: the message would be in hand for ever.
  test('and a function of the user that never answers then is given up', async () => {
    const body = Buffer.from(JSON.stringify({ text: 'x'.repeat(500_000) }))
    const schema: Given['schema'] = {
      '~standard': { version: 1, vendor: 'quick', validate: (value) => ({ value }) },
    }
    const eventKey = (() => new Promise(() => undefined)) as never
    expect(await run({ ...withKey(), body }, { runtime, schema, eventKey })).toMatchObject({
      kind: 'retry',
      error: { message: expect.stringContaining('`eventKey` gave no answer') },
    })
  })

  test('unless a function of the user has not answered', async () => {
    const skip = (() => new Promise(() => undefined)) as unknown as () => boolean
    expect(await run(withKey(), { runtime, skip })).toMatchObject({
      kind: 'retry',
      error: { message: expect.stringContaining('`skip` gave no answer') },
    })
  })
})
