import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { resolveOptions } from '../guard/resolve-options.ts'
import { memoryInbox, toDelivery } from '../memory/index.ts'
import { payloadHash } from '../messages/resolvers.ts'
import type { Delivery } from '../model/delivery.ts'
import type { InboxGuardOptions } from '../options/options.ts'
import { type Identified, identify } from '../receive/identify.ts'

type Given = Partial<InboxGuardOptions<unknown, undefined>>
const run = async (delivery: Delivery, given: Given = {}): Promise<Identified> =>
  identify(delivery, resolveOptions({ consumer: 'billing', inbox: memoryInbox(), ...given }))

const TEXT = JSON.stringify({ orderId: 'o-1', lines: Array(100).fill('line') })
const sent = (contentEncoding: string | undefined, body: Uint8Array | string = TEXT): Delivery => ({
  ...toDelivery(null, { body: Buffer.from(body), headers: { 'idempotency-key': 'k' } }),
  contentEncoding,
})
const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64')

test.each([
  ['gzip', gzipSync(TEXT)],
  ['X-GZIP', gzipSync(TEXT)],
  ['gzip', Buffer.concat([gzipSync(TEXT.slice(0, 9)), gzipSync(TEXT.slice(9))])],
  ['deflate', deflateSync(TEXT)],
  ['deflate', deflateRawSync(TEXT)],
  ['br', brotliCompressSync(TEXT)],
  ['deflate, gzip', gzipSync(deflateSync(TEXT))],
  ['identity, gzip', gzipSync(TEXT)],
  // SQS has text only.
  ['gzip', base64(gzipSync(TEXT))],
  ['br', base64(brotliCompressSync(TEXT))],
  ['deflate', base64(deflateRawSync(TEXT))],
  [undefined, TEXT],
  ['identity', TEXT],
  // Celery and others write the charset there.
  ['utf-8', TEXT],
  ['constructor', TEXT],
])(
  'a body of the content encoding %s is decoded, and is no other payload than the plain one',
  async (encoding, body) => {
    const seen: unknown[] = []
    const decode = (bytes: Uint8Array, { body: raw }: Delivery): unknown => {
      seen.push(Buffer.from(raw).equals(Buffer.from(body)))
      return JSON.parse(Buffer.from(bytes).toString())
    }
    for (const given of [{}, { decode }]) {
      const plain = await run(sent(undefined), given)
      seen.length = 0
      const identified = await run(sent(encoding, body), given)
      expect(identified).toMatchObject({ kind: 'identified', payload: { orderId: 'o-1' } })
      const { event } = identified as Extract<Identified, { kind: 'identified' }>
      expect(plain).toMatchObject({ event: { fingerprint: event.fingerprint } })
      // What is stored and published is the message as it came.
      expect(Buffer.from(event.delivery.body).equals(Buffer.from(body))).toBe(true)
    }
    expect(seen).toEqual([true])
  },
)

test('the hash of a payload is that of the body that the producer compressed', async () => {
  const eventKey = payloadHash()
  const [fast, small] = [1, 9].map((level) => gzipSync(TEXT, { level }))
  const keys = [sent(undefined), sent('gzip', fast), sent('gzip', small)].map((each) =>
    run(each, { eventKey }),
  )
  const [plain] = await Promise.all(keys)
  for (const each of await Promise.all(keys)) {
    expect(each).toHaveProperty('event.key', (plain as { event: { key: string } }).event.key)
  }
})

describe('a body that cannot be inflated is the fault of its message', () => {
  const bomb = 50 * 1024 * 1024
  const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }
  test.each([
    ['gzip', gzipSync(Buffer.alloc(bomb)), /more than 16777216 bytes.*maxInflatedBytes/],
    ['deflate', deflateSync(Buffer.alloc(bomb)), /more than/],
    ['br', brotliCompressSync(Buffer.alloc(bomb), quality), /more than/],
    ['gzip, gzip', gzipSync(gzipSync(Buffer.alloc(bomb))), /more than/],
    ['gzip, gzip, gzip, gzip, gzip', 'x', /more than 4 content encodings/],
    ['gzip', TEXT, /not gzip, which its content encoding says/],
    ['gzip', gzipSync(TEXT).subarray(0, 20), /not gzip/],
    ['deflate', 'plain', /not deflate/],
    ['br', gzipSync(TEXT), /not br/],
  ])('%s', async (encoding, body, message) => {
    expect(await run(sent(encoding, body))).toMatchObject({
      ...{ kind: 'refused', reason: 'invalid-payload' },
      error: { code: 'ONCEWARD_INVALID_PAYLOAD', message: expect.stringMatching(message) },
    })
  })
})

test('a decoder of the user gets the body as it came if the guard must not inflate', async () => {
  const body = gzipSync(TEXT)
  const decode = (bytes: Uint8Array): unknown => Buffer.from(bytes).equals(body)
  const given = { maxInflatedBytes: 0, decode }
  expect(await run(sent('gzip', body), given)).toMatchObject({ payload: true })
})

test('an empty body is none of any encoding', async () => {
  expect(await run(sent('gzip', ''))).toMatchObject({ payload: null })
})
