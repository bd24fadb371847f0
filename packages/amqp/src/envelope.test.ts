import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { Delivery } from '@onceward/core'
import { messageHash, withEnvelope } from '@onceward/core/adapter'
import { deadLetterOf } from '@onceward/testing/adapter'
import type { ConsumeMessage } from 'amqplib'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Publisher } from './clients/publisher.ts'
import { createPublisher, deadLetterMessage } from './dead-letter.ts'
import { amqpMessage, fromAmqpMessage } from './delivery.ts'
import { PublishError } from './errors.ts'
import { message as recorded } from './fixtures/recording-channel.ts'

interface Codec {
  encodeTable(buffer: Buffer, table: unknown, offset: number): number
  decodeFields(slice: Buffer): Record<string, unknown>
}
interface Defs {
  encodeProperties(id: number, channel: number, size: number, fields: object): Buffer
}
const require = createRequire(import.meta.url)
const lib = join(dirname(require.resolve('amqplib')), 'lib')
const codec = require(join(lib, 'codec.js')) as Codec
const defs = require(join(lib, 'defs.js')) as Defs

const text = fc.string({ unit: 'binary', maxLength: 40 })
const typed = (type: string, value: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  value.map((one) => ({ '!': type, value: one }))
/** Every type of AMQP 0-9-1, in the notation with which amqplib writes it. */
const leaf = fc.oneof(
  ...[text, fc.boolean(), fc.constant(null)],
  fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
  ...[typed('int8', fc.integer({ min: -128, max: 127 })), typed('uint8', fc.nat(255))],
  ...[typed('int16', fc.integer({ min: -32_768, max: 32_767 })), typed('uint16', fc.nat(65_535))],
  ...[typed('int32', fc.integer()), typed('uint32', fc.nat(4_294_967_295))],
  typed('int64', fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })),
  ...[typed('float', fc.float()), typed('double', fc.double())],
  typed('timestamp', fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })),
  typed('decimal', fc.record({ places: fc.nat(255), digits: fc.nat(4_294_967_295) })),
)
const name = fc
  .oneof(
    fc.string({ maxLength: 60 }),
    fc.constantFrom('', '!', 'value', 'Trace', 'trace', '7', 'x'.repeat(255)),
  )
  // `toStrictEqual` takes a header called "constructor" for the type of the object.
  .filter((one) => one !== '__proto__' && one !== 'constructor')
const field = fc.letrec<{ value: unknown; table: Record<string, unknown> }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    leaf,
    fc.array(tie('value'), { maxLength: 4 }),
    // A type must be given for a table with a field called `!`.
    tie('table').map((value) => ({ '!': 'object', value })),
    // Red when it is taken for a value of that type, which amqplib refuses to write.
    fc
      .record({ '!': fc.constantFrom('decimal', 'timestamp'), value: tie('value') })
      .map((value) => ({ '!': 'object', value })),
  ),
  table: fc
    .array(fc.tuple(name, tie('value')), { maxLength: 5 })
    .map((entries) => Object.fromEntries(entries)),
}))

function overTheWire(headers: object): Record<string, unknown> {
  const buffer = Buffer.alloc(1_000_000)
  return codec.decodeFields(buffer.subarray(4, codec.encodeTable(buffer, headers, 0)))
}

const short = fc.string({ maxLength: 60 })
const properties = fc.record(
  {
    contentType: short,
    contentEncoding: short,
    headers: field.table.map(overTheWire),
    deliveryMode: fc.constantFrom(1, 2),
    priority: fc.nat(255),
    correlationId: short,
    replyTo: short,
    expiration: fc.constant('60000'),
    messageId: short,
    timestamp: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(Number),
    type: short,
    userId: fc.constant('guest'),
    appId: short,
    clusterId: short,
  },
  { requiredKeys: ['headers'], noNullPrototype: true },
)
const message = fc
  .record({ properties, content: fc.uint8Array().map((bytes) => Buffer.from(bytes)) })
  .map((parts): ConsumeMessage => {
    const fields = { consumerTag: 'c', deliveryTag: 7, redelivered: false, exchange: 'shop' }
    return { fields: { ...fields, routingKey: 'orders' }, ...parts } as ConsumeMessage
  })
const target = { queue: 'orders.dead' }

test('every message comes back whole from its stored delivery, and dies as itself', () => {
  fc.assert(
    fc.property(message, (raw) => {
      const live = fromAmqpMessage(raw, 'orders')
      const stored = { ...live, raw: undefined, body: new Uint8Array(live.body) }
      expect(amqpMessage(stored)).toStrictEqual(raw)
      expect(deadLetterMessage(deadLetterOf(stored), target)).toStrictEqual(
        deadLetterMessage(deadLetterOf(live), target),
      )
    }),
  )
})

// Red when equal messages without an id share a hash: one dead letter would stand for all of them.
test('equal messages without an id are told apart, and each is the same when it comes back from its store', () => {
  const nameless = (): Delivery => fromAmqpMessage(recorded('k'), 'orders')
  const [live, other] = [nameless(), nameless()]
  expect(messageHash('billing', live)).not.toBe(messageHash('billing', other))
  const { envelope } = live
  const stored: Delivery = { ...live, envelope, raw: undefined }
  const restored = { ...stored, raw: amqpMessage(stored) }
  expect(messageHash('billing', restored)).toBe(messageHash('billing', live))
  // Stored by a version that gave no names: its row has the hash of the content.
  const old = withEnvelope({ ...live, raw: undefined }, () => recorded('k'))
  const [first, second] = [amqpMessage(old), amqpMessage(old)]
  expect(messageHash('billing', { ...old, raw: first })).toBe(
    messageHash('billing', { ...old, raw: second }),
  )
})

test('a dead letter has every property of its message, and every header once it was written and read', () => {
  fc.assert(
    fc.property(message, (raw) => {
      const { content, options } = deadLetterMessage(
        deadLetterOf(fromAmqpMessage(raw, 'orders')),
        target,
      )
      expect(content).toEqual(raw.content)
      const { headers, timestamp, ...own } = raw.properties
      const { deliveryMode, expiration, userId, clusterId, ...kept } = own as Record<
        string,
        unknown
      >
      expect(options).toMatchObject(kept)
      if (timestamp !== undefined)
        expect(options.timestamp).toBe(Math.min(timestamp, 2 ** 64 - 2_048))
      const sent = overTheWire(options.headers as object)
      for (const [name, value] of Object.entries(headers as object)) {
        expect(clamped(sent[name])).toEqual(clamped(value))
      }
      expect(sent['x-onceward-expiration']).toBe(expiration)
      expect(sent['x-onceward-user-id']).toBe(userId)
      expect(sent['x-onceward-delivery-mode']).toBe(
        deliveryMode === 2 ? undefined : (deliveryMode ?? 0),
      )
      expect(clusterId === undefined || !('clusterId' in options)).toBe(true)
    }),
  )
})

/** amqplib reads the largest timestamps as 2^64, which no timestamp can be. A timestamp has no negative zero. */
function clamped(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(clamped)
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value
  const entries = Object.entries(value).map(([name, each]) => [name, clamped(each)] as const)
  const table: Record<string, unknown> = Object.fromEntries(entries)
  const isTime = table['!'] === 'timestamp' && typeof table['value'] === 'number'
  return isTime ? { ...table, value: Math.min(Number(table['value']), 2 ** 64 - 2_048) + 0 } : table
}

/** A table with one field, as a publisher in any language writes it. */
function wireTable(tag: 'S' | 'l', content: Buffer): Record<string, unknown> {
  const length = Buffer.alloc(tag === 'S' ? 4 : 0)
  if (tag === 'S') length.writeUInt32BE(content.length)
  return codec.decodeFields(
    Buffer.concat([Buffer.from(`\x0fIdempotency-Key${tag}`), length, content]),
  )
}

const long = fc.bigInt({ min: 2n ** 53n - 2n, max: 2n ** 53n + 5n }).map((value) => {
  const content = Buffer.alloc(8)
  content.writeBigInt64BE(value)
  return content
})
/** Latin-1, UTF-8, and neither. */
const bytes = fc
  .array(fc.constantFrom(0x6d, 0xfc, 0xf6, 0xc3, 0xa9, 0xff), { minLength: 1, maxLength: 3 })
  .map((all) => Buffer.from(all))

// Red when a key is read from what amqplib made of the value: `müller-1` and `möller-1` in Latin-1 would be one event, and
// so would two neighbouring numbers of 64 bits. The second message would be acked as a duplicate.
test.each([
  ['S', bytes],
  ['l', long],
] as const)('no two values of a header of type %s become the same text', (tag, content) => {
  const keyOf = (value: Buffer): string | undefined => {
    const received = { fields: {}, properties: { headers: wireTable(tag, value) }, content: value }
    return fromAmqpMessage(received as never, 'orders').headers['idempotency-key']
  }
  fc.assert(
    fc.property(content, content, (one, other) => {
      const key = keyOf(one)
      if (!one.equals(other) && key !== undefined) expect(keyOf(other)).not.toBe(key)
    }),
    { numRuns: 500 },
  )
  const plain = { S: Buffer.from('müller-1'), l: Buffer.from([0, 0, 0, 0, 0, 0, 0, 7]) }
  expect(keyOf(plain[tag])).toBe({ S: 'müller-1', l: '7' }[tag])
})

test('no two values of a message id and an application id become the same id', () => {
  const idOf = (messageId: string, appId?: string): string | undefined => {
    const received = { fields: {}, properties: { headers: {}, messageId, appId } }
    return fromAmqpMessage({ ...received, content: Buffer.alloc(0) } as never, 'orders').messageId
  }
  const latin = (value: string): string => Buffer.from(value, 'latin1').toString('utf8')
  expect(idOf(latin('mö'))).toBeUndefined()
  expect(idOf('1', latin('ö'))).toBeUndefined()
  expect(idOf('1', 'ö')).toBe('2:ö:1')
})

/** Nested tables, one in the other, as deep as a message of another client may have them. */
function nested(depth: number): Record<string, unknown> {
  const levels = Array.from({ length: depth }, (_, inner) => {
    const level = Buffer.from('\x01aF....', 'latin1')
    level.writeUInt32BE(inner * level.length, 3)
    return level
  })
  return codec.decodeFields(Buffer.concat(levels.toReversed()))
}

/** The deepest headers that amqplib reads here. */
function deepest(): Record<string, unknown> {
  for (let depth = 9_000; ; depth -= 250) {
    try {
      return nested(depth)
    } catch {
      // The stack is too small.
    }
  }
}

// Red when a dead letter is only tried with the headers of its message: it was tried for ever, and its message stayed in hand.
test.each([
  ['headers that are nested too deeply to be written', { headers: deepest() }],
  ['headers that fill the buffer', { headers: { a: 'x'.repeat(65_400), b: 'y'.repeat(100) } }],
  [
    'texts that are not UTF-8',
    Object.fromEntries(
      [
        'contentType',
        'contentEncoding',
        'correlationId',
        'replyTo',
        'messageId',
        'type',
        'appId',
      ].map((each) => [each, '\uFFFD'.repeat(255)]),
    ),
  ],
])('a message with %s is dead-lettered', async (_what, given) => {
  const written: Record<string, unknown>[] = []
  const publish: Publisher['publish'] = async ({ content, options }) => {
    try {
      defs.encodeProperties(60, 1, content.length, options)
      written.push({ content, ...options })
    } catch (error) {
      throw new PublishError('the client refused to publish', { cause: error })
    }
  }
  const properties = { headers: {}, ...given }
  const received = { fields: { exchange: '', routingKey: 'orders' }, properties }
  const content = Buffer.from('{}')
  const delivery = fromAmqpMessage({ ...received, content } as never, 'orders')
  await createPublisher({ publish }, { queue: 'dead' }, true)(deadLetterOf(delivery))
  expect(written).toMatchObject([{ content }])
})
