import { redis } from '@onceward/testing'
import { Redis } from 'ioredis'
import type { WorkerConfig } from '../support/workers/protocol.ts'

/** What happens to Redis while the process waits at its crash point. `restarted`: with its data. */
export const FATES = ['absent', 'up', 'down', 'flushed', 'restarted'] as const
export type Fate = (typeof FATES)[number]

/** The Redis of one scene, or none. */
export interface Cache extends AsyncDisposable {
  /** What workers are told about the Redis. */
  readonly config: Pick<WorkerConfig, 'redisPort'>
  /** Does to Redis what the scene says. */
  strike(): Promise<void>
  /** Makes every waiting event due now. */
  makeDue(): Promise<void>
}

/** Starts a Redis for this scene alone, because scenes run concurrently. */
export async function openCache(fate: Fate): Promise<Cache> {
  if (fate === 'absent') return ABSENT
  const server = await redis({ native: true })
  const { port } = server.connection
  const client = new Redis(port, { retryStrategy: () => 20, maxRetriesPerRequest: null })
  client.on('error', () => undefined)
  const strikes: Readonly<Record<Exclude<Fate, 'absent'>, () => Promise<unknown>>> = {
    up: async () => undefined,
    down: () => server.kill(),
    flushed: () => client.flushall(),
    restarted: async () => {
      await server.kill()
      await server.restart()
    },
  }
  return {
    config: { redisPort: port },
    strike: async () => void (await strikes[fate]()),
    makeDue: async () => {
      if (fate !== 'down') await makeDue(client)
    },
    [Symbol.asyncDispose]: async () => {
      client.disconnect()
      await server.stop()
    },
  }
}

const ABSENT: Cache = {
  config: {},
  strike: async () => undefined,
  makeDue: async () => undefined,
  [Symbol.asyncDispose]: async () => undefined,
}

/** The value of a waiting event: version and kind, fingerprint, end of the wait. */
const WAITING = /^(1w[\s\S]{8})\d+ /

async function makeDue(client: Redis): Promise<void> {
  for (const key of await client.keysBuffer('*')) {
    if ((await client.type(key)) !== 'string') continue
    const value = (await client.getBuffer(key))?.toString('latin1') ?? ''
    const due = value.replace(WAITING, '$10 ')
    if (due !== value) await client.set(key, Buffer.from(due, 'latin1'), 'KEEPTTL')
  }
}
