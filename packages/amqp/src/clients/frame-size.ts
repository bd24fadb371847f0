import { types } from 'node:util'
import type { Options } from 'amqplib'
import type { AmqpChannel } from '../client.ts'

/** Class, weight, size of the body and flags of a content header. */
const FIXED_BYTES = 14
/** Type, channel, size and end of every frame. */
const FRAME_BYTES = 8

/**
 * Bytes of the frame with the properties of a message, as amqplib writes it. This frame cannot be split: the server
 * closes the connection when it is larger than agreed.
 */
export function headerFrameBytes({ headers, ...options }: Options.Publish): number {
  const { contentType, contentEncoding, correlationId, replyTo, expiration } = options
  const { messageId, type, userId, appId, priority, timestamp } = options
  const texts = [
    ...[contentType, contentEncoding, correlationId, replyTo, expiration],
    ...[messageId, type, userId, appId],
  ]
  return (
    FRAME_BYTES +
    FIXED_BYTES +
    sum(texts.map((text) => (text === undefined ? 0 : 1 + Buffer.byteLength(String(text))))) +
    tableBytes(headers as object) +
    (timestamp === undefined ? 0 : 8) +
    (priority === undefined ? 0 : 1) +
    // Of the delivery mode.
    1
  )
}

const sum = (sizes: readonly number[]): number => sizes.reduce((all, size) => all + size, 0)

function tableBytes(table: object): number {
  const fields = Object.entries(table).filter(([, value]) => value !== undefined)
  return 4 + sum(fields.map(([name, value]) => 1 + Buffer.byteLength(name) + valueBytes(value)))
}

/** With the byte of its type. */
function valueBytes(value: unknown): number {
  if (typeof value === 'string') return 5 + Buffer.byteLength(value)
  if (typeof value === 'number') return 1 + numberBytes(value)
  if (typeof value === 'boolean') return 2
  if (value === null || typeof value !== 'object') return 1
  if (types.isUint8Array(value)) return 5 + value.length
  if (Array.isArray(value)) return 5 + sum(value.map(valueBytes))
  if (!Object.hasOwn(value, '!')) return 1 + tableBytes(value)
  const { '!': type, value: typed } = value as { readonly '!': unknown; readonly value: unknown }
  if (type === 'object') return 1 + tableBytes(typed as object)
  return 1 + (type === 'decimal' ? 5 : 8)
}

/**
 * Bytes of the largest message that the server of a connection takes, once it has refused one. A higher limit in its
 * configuration takes a restart of the server, and then there is another connection.
 */
const LIMITS = new WeakMap<object, number>()
const REFUSED = /message size \d+ is larger than (?:configured )?max size (\d+)/

/** Reads the limit out of the error of a channel, which the server closes for each message above it. */
export function learnLimit(channel: AmqpChannel, error: unknown): void {
  const [, limit] = REFUSED.exec(String(error)) ?? []
  if (limit !== undefined) LIMITS.set(Object(channel.connection), Number(limit))
}

/** @throws RangeError for a message for which the server would close the channel or its connection. */
export function refuseTooLarge(
  channel: AmqpChannel,
  options: Options.Publish,
  content: Buffer,
): void {
  const limit = LIMITS.get(Object(channel.connection)) ?? Number.POSITIVE_INFINITY
  if (content.length > limit) {
    throw new RangeError(
      `the message has ${content.length} bytes, and the server takes at most ${limit}: raise its \`max_message_size\``,
    )
  }
  const most: unknown = Object(channel.connection).frameMax
  const bytes = headerFrameBytes(options)
  if (typeof most !== 'number' || bytes <= most) return
  throw new RangeError(
    `the properties and headers take ${bytes} bytes, and a frame of this connection at most ${most} (frameMax)`,
  )
}

/** Integers take as few bytes as they need. */
function numberBytes(value: number): number {
  if (!Number.isInteger(value)) return 8
  const bytes = [1, 2, 4].find(
    (size) => value >= -(2 ** (8 * size - 1)) && value < 2 ** (8 * size - 1),
  )
  return bytes ?? 8
}
