import { runInNewContext } from 'node:vm'
import { describe, expect, test } from 'vitest'
import { resolveOptions } from '../guard/resolve-options.ts'
import { memoryInbox } from '../memory/index.ts'
import { toDelivery } from '../memory/to-delivery.ts'
import { header } from '../messages/resolvers.ts'
import type { Delivery } from '../model/delivery.ts'
import { FatalError, MissingKeyError, RetryableError } from '../model/errors.ts'
import type { InboxGuardOptions } from '../options/options.ts'
import { type Identified, identify } from './identify.ts'

type Given = Partial<InboxGuardOptions<unknown, undefined>>

const run = async (delivery: Delivery, given: Given = {}): Promise<Identified> =>
  identify(delivery, resolveOptions({ consumer: 'billing', inbox: memoryInbox(), ...given }))

const withKey = (): Delivery => toDelivery({ a: 1 }, { headers: { 'idempotency-key': 'k' } })
const withoutKey = (): Delivery => toDelivery({ a: 1 }, { headers: {} })
const throwing = (error: unknown) => (): never => {
  throw error
}

const LETTERS = [...'abcdefghijklmnopqrstuvwxyz']

describe('the error for a missing key says what is missing and what to do', () => {
  const noKey = 'No resolver of `eventKey` found a key.'
  const remedy =
    'Let the producer set it (CloudEvents source and id, or an idempotency-key header), or set the option to a resolver that finds it.'

  const correct = 'Correct the resolver, or let the producer set what it reads.'

  test.each<readonly [Delivery, Given, string]>([
    [withoutKey(), {}, `${noKey} ${remedy}`],
    [
      withoutKey(),
      { eventKey: () => undefined },
      `\`eventKey\` found nothing. The payload has these fields: \`a\`. ${correct}`,
    ],
    [
      withKey(),
      { tenant: () => undefined },
      `\`tenant\` found nothing. The payload has these fields: \`a\`. ${correct}`,
    ],
    // Names only: a value may be secret, and so may a name that looks like a connection string.
    [
      toDelivery({ orderId: 'x', card: '4242', 'redis://u:p@host': 1 }, { headers: {} }),
      { eventKey: header('id') },
      `\`eventKey\` found nothing. The payload has these fields: \`orderId\`, \`card\`, \`<16 characters that look like a connection string>\`. ${correct}`,
    ],
    [
      toDelivery(['x'], { headers: {} }),
      { eventKey: header('id') },
      `\`eventKey\` found nothing. The payload is an array and has no named fields. ${correct}`,
    ],
    [
      toDelivery('x', { headers: {} }),
      { eventKey: header('id') },
      `\`eventKey\` found nothing. The payload is of type string and has no fields. ${correct}`,
    ],
    [
      toDelivery(Object.fromEntries(LETTERS.map((name) => [name, 1])), { headers: {} }),
      { eventKey: header('id') },
      `\`eventKey\` found nothing. The payload has these fields: ${LETTERS.slice(0, 20)
        .map((name) => `\`${name}\``)
        .join(', ')}, and 6 more. ${correct}`,
    ],
    [
      withoutKey(),
      { onMissingKey: 'position' },
      '`eventKey` found nothing, and the message has no position in its broker that could be used instead.',
    ],
  ])('%#', async (delivery, given, message) => {
    expect(await run(delivery, given)).toMatchObject({
      kind: 'refused',
      reason: 'missing-event-key',
      error: expect.objectContaining({ message }),
    })
  })
})

describe('the ordering key', () => {
  test.each([undefined, null, ''])('%o is none', async (value) => {
    const orderingKey = () => value as undefined
    const identified = await run(withKey(), { orderingKey })
    expect(identified).toMatchObject({ kind: 'identified', orderingKey: undefined })
  })

  test('a bigint is its text', async () => {
    const orderingKey = () => 5n as unknown as string
    expect(await run(withKey(), { orderingKey })).toMatchObject({ orderingKey: '5' })
  })

  test.each([true, {}])('%o is refused, with its type', async (value) => {
    const orderingKey = () => value as unknown as string
    expect(await run(withKey(), { orderingKey })).toMatchObject({
      reason: 'invalid-payload',
      error: { message: `\`orderingKey\` returned a value of type ${typeof value}.` },
    })
  })
})

describe("what a function of the user's throws", () => {
  test('is tried again when it says so, at once or later, and nothing is refused', async () => {
    const error = new RetryableError('the registry is down')
    expect(await run(withKey(), { decode: throwing(error) })).toEqual({
      ...{ kind: 'retry', error, isCounted: true },
    })
    const later = () => Promise.reject(error)
    expect(await run(withKey(), { decode: later })).toMatchObject({ kind: 'retry', error })
  })

  test('refuses the message for good when it is fatal', async () => {
    const error = new FatalError('no')
    expect(await run(withKey(), { decode: throwing(error) })).toMatchObject({
      ...{ kind: 'refused', reason: 'fatal', error },
    })
  })

  test('refuses the message for good when it is a syntax error, also of another realm', async () => {
    const { error } = runInNewContext('try { JSON.parse("{") } catch (error) { ({ error }) }')
    for (const thrown of [new SyntaxError('what'), error]) {
      expect(await run(withKey(), { decode: throwing(thrown) })).toMatchObject({
        ...{ kind: 'refused', reason: 'invalid-payload' },
        error: { message: expect.stringMatching(/^`decode` threw SyntaxError: /), cause: thrown },
      })
    }
  })

  test('may say that the key is missing, in its own words', async () => {
    const error = new MissingKeyError('orders of the old shop have none')
    expect(await run(withKey(), { eventKey: throwing(error) })).toEqual({
      kind: 'refused',
      reason: 'missing-event-key',
      error,
      key: undefined,
    })
  })
})

test('a delivery that cannot be read is refused, and nothing is thrown', async () => {
  const delivery = { ...withKey() }
  const get = throwing(new RangeError('broken'))
  Object.defineProperty(delivery, 'headers', { enumerable: true, get })
  expect(await run(delivery)).toMatchObject({
    kind: 'refused',
    reason: 'invalid-payload',
    error: { message: 'an option threw RangeError: broken' },
  })
})
