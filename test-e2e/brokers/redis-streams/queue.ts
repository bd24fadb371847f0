import { Redis } from 'ioredis'
import type { Order, Source } from '../../support/workers/protocol.ts'
import { freshName, type QueueUnderTest } from '../queue-under-test.ts'

export interface StreamQueueOptions {
  readonly claimIdleMs?: number | undefined
  readonly holdMs?: number | undefined
}

export interface StreamSource extends Source, StreamQueueOptions {
  readonly kind: 'redis-streams'
  readonly url: string
  readonly stream: string
  readonly dead: string
}

/** A stream and its dead-letter stream. */
export interface StreamQueue extends QueueUnderTest {
  readonly source: StreamSource
}

export async function createStreamQueue(
  url: string,
  { claimIdleMs = 2_000, holdMs }: StreamQueueOptions = {},
): Promise<StreamQueue> {
  const redis = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 50 })
  redis.on('error', () => undefined)
  const stream = freshName()
  const dead = `${stream}.dead`
  let lastLetter = '-'
  return {
    operator: { address: `${url}?stream=${stream}`, env: {} },
    source: { kind: 'redis-streams', url, stream, dead, claimIdleMs, holdMs },
    send: async (orders) => {
      const adding = orders.map((order) => redis.xadd(stream, '*', ...fieldsOf(order)))
      await Promise.all(adding)
    },
    // A parked entry is in the stream too.
    depth: () => redis.xlen(stream),
    deadLetters: async () => {
      const letters = await redis.xrange(dead, lastLetter, '+')
      const last = letters.at(-1)
      if (last !== undefined) lastLetter = `(${last[0]}`
      return letters.map(([, flat]) => {
        const at = (name: string): string | undefined => {
          const index = flat.findIndex((each, place) => place % 2 === 0 && each === name)
          return index === -1 ? undefined : flat[index + 1]
        }
        return { id: JSON.parse(at('payload') ?? '{}').id, reason: at('x-onceward-reason') }
      })
    },
    close: async () => redis.disconnect(),
  }
}

/** An empty lane would be one. */
const fieldsOf = (order: Order): readonly string[] => [
  ...['payload', JSON.stringify(order)],
  ...(order.lane === undefined ? [] : ['lane', order.lane]),
]
