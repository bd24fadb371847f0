import type { Confirmation, Destination, OutgoingMessage } from '@onceward/core'
import { outgoingHeaders, refuseProblems, refuseUnknownNames } from '@onceward/core/adapter'
import type { Argument, StreamClient } from '../client.ts'
import { DEFAULTS, nameProblems } from '../options.ts'
import { type Connection, connectionOf } from './connection.ts'

/** Options of {@link streamDestination}. */
export interface StreamDestinationOptions {
  /** The key of the stream. */
  readonly stream: string
  /** The field of the payload; those of the headers are beside it. @defaultValue `'payload'`, as of consumers */
  readonly bodyField?: string | undefined
}

const BATCH = 100

/**
 * A stream as a destination of the outbox's relay. The answer of Redis to XADD is the confirmation, so a message is as
 * durable as that Redis is. A Redis that refuses is a destination that is down: no attempt is counted. The stream grows
 * until its consumers delete what they have done, which is the default of `consumeStream`.
 *
 * @param client - Of ioredis, iovalkey or node-redis.
 * @throws {@link ConfigurationError}
 *
 * @example
 * ```ts
 * import { startRelay } from '@onceward/postgres/outbox'
 * import { streamDestination } from '@onceward/redis-streams'
 * import { Redis } from 'ioredis'
 *
 * const payments = streamDestination(new Redis(), { stream: 'payments' })
 * const relay = await startRelay({ pool, destinations: { payments } })
 * await relay.stopped
 * ```
 */
export function streamDestination(
  client: StreamClient,
  options: StreamDestinationOptions,
): Destination {
  const place = 'streamDestination'
  const connection = connectionOf(place, client)
  refuseUnknownNames(place, options, { stream: true, bodyField: true })
  const { bodyField = DEFAULTS.bodyField, stream } = options
  refuseProblems([...nameProblems('stream', stream ?? ''), ...nameProblems('bodyField', bodyField)])
  return {
    batch: BATCH,
    publish: (messages) =>
      Promise.all(messages.map((message) => add(connection, stream, toFields(message, bodyField)))),
  }
}

/** No error is about the entry: a Redis that is full, read-only or has another key of this name refuses all of them. */
async function add(
  connection: Connection,
  stream: string,
  fields: readonly Argument[],
): Promise<Confirmation> {
  try {
    await connection.call(stream, ['XADD', stream, '*', ...fields])
    return undefined
  } catch (error) {
    return { down: error }
  }
}

/** The body is the last field, so that a header of its name is no body. */
function toFields(message: OutgoingMessage, bodyField: string): readonly Argument[] {
  const headers = Object.entries(outgoingHeaders(message, 'ce-'))
  const fields = headers.filter(([name]) => name !== bodyField).flat()
  return [...fields, bodyField, Buffer.from(message.payload)]
}
