import { eventIdOf } from '@onceward/core/ports'
import { redis } from '@onceward/testing'
import { Redis } from 'ioredis'
import type { WorkerConfig } from '../support/workers/protocol.ts'
import type { LeaseLeft } from './rows.ts'

/** What happens to Redis while the process waits at its crash point. `restarted`: with its data. */
export const FATES = ['absent', 'up', 'down', 'flushed', 'restarted'] as const
export type Fate = (typeof FATES)[number]

/** The Redis of one scenario, or none. */
export interface Cache extends AsyncDisposable {
  /** What workers are told about the Redis. */
  readonly config: Pick<WorkerConfig, 'redisPort'>
  /** Does to Redis what the scenario says. */
  strike(): Promise<void>
  /** Makes every waiting event due now. */
  makeDue(): Promise<void>
  /** What Redis holds of an event. Undefined if there is none, or if it lost what it had. */
  leaseOf(key: string): Promise<LeaseLeft | undefined>
}

/** Starts a Redis for this scenario alone, because scenarios run concurrently. */
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
    leaseOf: async (key) =>
      fate === 'up' || fate === 'restarted' ? leaseOf(client, key) : undefined,
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
  leaseOf: async () => undefined,
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

/** The first bytes of the value of an event: version and kind. */
const LEASES: Readonly<Record<string, LeaseLeft>> = { '1p': 'in progress', '1w': 'waiting' }

async function leaseOf(client: Redis, key: string): Promise<LeaseLeft> {
  const id = Buffer.from(eventIdOf('orders', undefined, key).replaceAll('-', ''), 'hex')
  const keys = await client.keysBuffer('*}e*')
  const found = keys.find((each) => each.subarray(-id.length).equals(id))
  const value = found === undefined ? null : await client.getBuffer(found)
  const kind = value?.toString('latin1', 0, 2)
  if (kind === undefined) return 'none'
  const lease = LEASES[kind]
  if (lease === undefined) throw new Error(`Redis holds ${JSON.stringify(kind)} of the event`)
  return lease
}
