import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { RecordingChannel, RecordingConnection } from '../fixtures/recording-channel.ts'
import { headerFrameBytes, learnLimit, refuseTooLarge } from './frame-size.ts'
import { encodable } from './header-types.ts'

const { resolve } = createRequire(import.meta.url)
const load = createRequire(import.meta.url)
interface Encoding {
  readonly BasicProperties: number
  encodeProperties(id: number, channel: number, size: number, fields: object): Buffer
}
const amqplib = load(join(dirname(resolve('amqplib')), 'lib/defs.js')) as Encoding

const value: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    ...[fc.string({ unit: 'grapheme' }), fc.double(), fc.integer(), fc.maxSafeInteger()],
    ...[fc.boolean(), fc.constant(null), fc.bigInt({ min: 0n, max: 2n ** 62n })],
    ...[
      fc.uint8Array(),
      fc.constantFrom(127, 128, -128, -129, 32_767, 32_768, 2 ** 31, 2 ** 50, -0),
    ],
    fc.integer({ min: 0 }).map((seconds) => ({ '!': 'timestamp', value: seconds })),
    fc.nat(255).map((places) => ({ '!': 'decimal', value: { places, digits: 7 } })),
    ...[
      fc.array(tie('value')),
      fc.dictionary(
        fc.constantFrom('a', 'ü', '!', 'name'),
        fc.option(tie('value'), { nil: undefined }),
      ),
    ],
  ),
})).value

const text = fc.option(fc.string({ unit: 'grapheme', maxLength: 20 }), { nil: undefined })
const options = fc.record({
  headers: fc.dictionary(fc.string({ maxLength: 20 }), fc.option(value, { nil: undefined })),
  ...{
    contentType: text,
    contentEncoding: text,
    correlationId: text,
    replyTo: text,
    messageId: text,
  },
  ...{ expiration: text, type: text, userId: text, appId: text },
  priority: fc.option(fc.nat(255), { nil: undefined }),
  timestamp: fc.option(fc.nat(), { nil: undefined }),
})

test('the size of a header frame is that of the frame that amqplib writes', () => {
  fc.assert(
    fc.property(options, (drawn) => {
      const written = { ...drawn, headers: encodable(drawn.headers) }
      const fields = { ...written, deliveryMode: 2 }
      const frame = amqplib.encodeProperties(amqplib.BasicProperties, 1, 0, fields)
      expect(headerFrameBytes(written as never)).toBe(frame.length)
    }),
  )
})

// Red when it is sent: the server closes the connection, and with it the channels of all who share it.
test('a message is refused whose properties need a larger frame than the connection has', () => {
  const connection = Object.assign(new RecordingConnection(), { frameMax: 8_192 })
  const channel = new RecordingChannel(connection) as never
  const withHeader = (length: number) => ({ headers: { pad: 'x'.repeat(length) } })
  const most = 8_192 - headerFrameBytes(withHeader(0))
  expect(() => refuseTooLarge(channel, withHeader(most), Buffer.alloc(0))).not.toThrow()
  expect(() => refuseTooLarge(channel, withHeader(most + 1), Buffer.alloc(0))).toThrow(
    /take 8193 bytes.*at most 8192/,
  )
})

// Red when one digit is read, or when another error of the channel ends what is known.
test('a message above the limit that the server has named is refused, whatever it refuses afterwards', () => {
  const channel = new RecordingChannel(new RecordingConnection()) as never
  const publish = (bytes: number) => () =>
    refuseTooLarge(channel, { headers: {} }, Buffer.alloc(bytes))
  expect(publish(2_000)).not.toThrow()
  const refusal = 'PRECONDITION_FAILED - message size 2000 is larger than configured max size 1024'
  learnLimit(channel, new Error(refusal))
  learnLimit(channel, new Error('NOT_FOUND - no exchange'))
  expect(publish(1_024)).not.toThrow()
  expect(publish(1_025)).toThrow(/has 1025 bytes, and the server takes at most 1024/)
})
