// @module-tag nightly

import { amqpMessage, consumeAmqp } from '@onceward/amqp'
import { rabbitmq, skipped } from '@onceward/testing'
import {
  type ChannelModel,
  type ConsumeMessage,
  connect,
  type GetMessage,
  type Options,
} from 'amqplib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freshName } from '../../brokers/queue-under-test.ts'
import {
  diesWhole,
  diesWholeAgain,
  ID,
  type Letters,
  returnsWhole,
  withoutReasons,
} from './equal-messages.ts'

const typed = (type: string, value: unknown): object => ({ '!': type, value })
/**
 * Every type of a header, and values at which a client or a store gives up. RabbitMQ itself ends connections that send
 * NaN or an infinite number: for those see `packages/amqp/src/envelope.test.ts`.
 */
const HEADERS: Readonly<Record<string, unknown>> = {
  ...{ text: 'ä\0\u{1f600}', empty: '', yes: true, no: false, nothing: null },
  ...{ bytes: Buffer.from([0, 255, 128]), noBytes: Buffer.alloc(0) },
  ...{ int8: typed('int8', -128), uint8: typed('uint8', 255) },
  ...{ int16: typed('int16', -32_768), uint16: typed('uint16', 65_535) },
  ...{ int32: typed('int32', -(2 ** 31)), uint32: typed('uint32', 2 ** 32 - 1) },
  ...{ long: typed('int64', 2n ** 53n), longest: typed('int64', 2n ** 63n - 1n) },
  ...{ least: typed('int64', -(2n ** 63n)), float: typed('float', 0.5), zero: typed('double', -0) },
  huge: typed('double', Number.MAX_VALUE),
  fraction: typed('double', 2 ** 50 + 0.5),
  ...{ time: typed('timestamp', 1_700_000_000), lateTime: typed('timestamp', 2n ** 64n - 1n) },
  decimal: typed('decimal', { places: 2, digits: 12_345 }),
  table: { deep: { '7': 1, a: [1, 'two', null, { b: Buffer.from([1]) }], empty: {} } },
  bang: { deep: typed('object', { '!': 'x', value: 1 }) },
  list: [[], {}, [typed('timestamp', 1)]],
  ...{ Case: 'a', case: 'b', [`${'n'.repeat(255)}`]: 'long name', 'x-onceward-own': 'kept' },
  'x-onceward-reason': 'of an earlier death',
}
const PROPERTIES: Options.Publish = {
  ...{ contentType: 'text/plain', contentEncoding: 'gzip', deliveryMode: 1, priority: 3 },
  ...{ correlationId: 'c', replyTo: 'r', expiration: '3600000', messageId: 'm', type: 't' },
  ...{ appId: 'ä'.repeat(127), userId: 'guest', timestamp: 1_700_000_000 },
}
const MESSAGES: readonly (readonly [Buffer, Options.Publish])[] = [
  [Buffer.alloc(0), {}],
  [Buffer.from([0xff, 0xfe, 0]), { headers: HEADERS }],
  [Buffer.from('{}'), PROPERTIES],
  [Buffer.from('ä'), { ...PROPERTIES, headers: HEADERS, timestamp: 2 ** 53 }],
  [Buffer.from('large headers'), { headers: { large: 'x'.repeat(65_000) } }],
  // Larger than any piece in which a store keeps it.
  [Buffer.alloc(20 * 1024 * 1024, 'large'), { headers: { a: 1 } }],
]

describe.skipIf(skipped('rabbitmq'))('a dead letter of RabbitMQ', () => {
  let server: Awaited<ReturnType<typeof rabbitmq>>
  beforeAll(async () => {
    server = await rabbitmq()
  })
  afterAll(() => server?.stop())

  async function send(connection: ChannelModel): Promise<Letters<ConsumeMessage>> {
    const queue = freshName()
    const dead = `${queue}.dead`
    const channel = await connection.createConfirmChannel()
    await channel.assertQueue(queue)
    await channel.assertQueue(dead)
    for (const [index, [content, options]] of MESSAGES.entries()) {
      const headers = { ...options.headers, [ID]: String(index) }
      channel.publish('', queue, content, { ...options, headers })
    }
    await channel.waitForConfirms()
    const published = new Map<string, ConsumeMessage>()
    return {
      sent: MESSAGES.length,
      consume: (guard, publishes) =>
        consumeAmqp(() => connect(server.connection.url), guard, {
          queue,
          ...(publishes ? { deadLetter: { queue: dead } } : {}),
        }),
      messageOf: amqpMessage,
      published: async () => {
        for (;;) {
          const message: GetMessage | false = await channel.get(dead, { noAck: true })
          if (message === false) return published
          published.set(String(message.properties.headers?.[ID]), message as never)
        }
      },
      expectSame,
      operator: { address: server.connection.url, env: {} },
      expectReturned,
    }
  }

  // Red when a dead letter is made of the text in its row.
  test('has every property and header of its message, of every type', async () => {
    await using connection = disposable(await connect(server.connection.url))
    await diesWhole(await send(connection.model))
  })

  test('has them too after a restart, from the row, and so has its replay', async () => {
    await using connection = disposable(await connect(server.connection.url))
    await diesWholeAgain(await send(connection.model))
  })

  test('goes back to its queue as it came', async () => {
    await using connection = disposable(await connect(server.connection.url))
    await returnsWhole(await send(connection.model))
  })
})

function expectReturned(message: ConsumeMessage, original: ConsumeMessage): void {
  expect(Buffer.compare(message.content, original.content)).toBe(0)
  const { deliveryMode, expiration, userId, headers = {}, ...kept } = original.properties
  expect(message.properties).toEqual({
    ...kept,
    ...{ deliveryMode: 2, expiration: undefined, userId: undefined },
    headers: clamped(withoutReason(headers)),
  })
  expect(message.fields).toMatchObject({ exchange: '', routingKey: original.fields.routingKey })
}

const withoutReason = ({
  'x-onceward-reason': _reason,
  ...headers
}: Readonly<Record<string, unknown>>): object => headers

function expectSame(letter: ConsumeMessage, original: ConsumeMessage): void {
  expect(Buffer.compare(letter.content, original.content)).toBe(0)
  const { deliveryMode, expiration, userId, headers, ...kept } = original.properties
  expect(letter.properties).toMatchObject(kept)
  // Where its own headers leave no room, none of ours is sent.
  const isFull = String(headers?.['large'] ?? '').length > 60_000
  const ours = {
    'x-onceward-routing-key': original.fields.routingKey,
    ...(deliveryMode === 2 ? {} : { 'x-onceward-delivery-mode': deliveryMode ?? 0 }),
    ...(expiration === undefined ? {} : { 'x-onceward-expiration': expiration }),
    ...(userId === undefined ? {} : { 'x-onceward-user-id': userId }),
    'x-onceward-reason': 'fatal',
  }
  if (!isFull) expect(letter.properties.headers).toMatchObject(ours)
  expect(withoutReasons(letter.properties.headers ?? {})).toEqual(
    clamped(withoutReasons(headers ?? {})),
  )
  expect(letter.properties.headers?.['x-onceward-own']).toBe(headers?.['x-onceward-own'])
}

/** amqplib reads the last timestamp as 2^64, which it cannot write: it is sent as the last one that it can. */
function clamped(value: object): object {
  const time = { '!': 'timestamp', value: 2 ** 64 - 2 ** 11 }
  return 'lateTime' in value ? { ...value, lateTime: time } : value
}

function disposable(model: ChannelModel) {
  return { model, [Symbol.asyncDispose]: () => model.close() }
}
