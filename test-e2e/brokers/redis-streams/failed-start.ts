import { randomUUID } from 'node:crypto'
import type { EventEmitter } from 'node:events'
import { consumeStream } from '@onceward/redis-streams'
import { redis } from '@onceward/testing'
import { Redis } from 'ioredis'
import { type FailedStart, type FailedStartSubject, network } from '../../support/failed-start.ts'
import { withFailingStep } from '../../support/failing-step.ts'

export const failedStarts: readonly FailedStart[] = [
  { title: 'Redis Streams', start: onRedisStreams },
]

const CALLS = { steps: ['callBuffer'], factories: ['duplicate'] }

async function onRedisStreams(): Promise<FailedStartSubject> {
  const server = await redis()
  const client = new Redis(server.connection.url)
  const stream = `start-${randomUUID()}`
  return {
    errors: {
      network,
      forbidden: () =>
        new Error("NOPERM this user has no permissions to run the 'evalsha' command"),
      missing: () => new Error('NOGROUP No such key or consumer group'),
    },
    emitters: () => ({ client: client as unknown as EventEmitter }),
    consume: ({ guard, signal, step }) =>
      consumeStream(
        withFailingStep(client, CALLS, () => step),
        guard,
        { stream, signal, drainMs: 1_000 },
      ),
    stop: async () => {
      client.disconnect()
      await server.stop()
    },
  }
}
