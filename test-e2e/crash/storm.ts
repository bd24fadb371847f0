import { setTimeout as pause } from 'node:timers/promises'
import type { Server } from '@onceward/testing'
import { Redis } from 'ioredis'
import type { RunningBroker } from '../brokers/broker.ts'
import type { Crew } from '../support/workers/crew.ts'
import type { Blow, Plan, Target } from './plan.ts'
import type { Servers } from './servers.ts'

export interface StormOptions {
  readonly plan: Plan
  readonly crew: Crew
  readonly servers: Servers
  readonly broker: RunningBroker
  /** Resolves when this share of the events has an effect or a dead letter. */
  readonly reached: (share: number) => Promise<void>
}

/** Plays the blows of all targets concurrently, so that several are down at the same time. */
export async function rage(options: StormOptions): Promise<void> {
  const { plan, reached } = options
  const targets = Object.keys(plan.blows) as readonly Target[]
  await Promise.all(
    targets.map(async (target) => {
      for (const blow of plan.blows[target]) {
        await reached(blow.at)
        await STRIKES[target](blow, options)
      }
    }),
  )
}

interface Strikes {
  workers(blow: Blow, at: Pick<StormOptions, 'crew'>): Promise<void>
  postgres(blow: Blow, at: Pick<StormOptions, 'servers'>): Promise<void>
  redis(blow: Blow, at: Pick<StormOptions, 'servers'>): Promise<void>
  broker(blow: Blow, at: Pick<StormOptions, 'broker'>): Promise<void>
}

/** How each target takes a blow. */
export const STRIKES: Strikes = {
  workers: async ({ kind, whom, forMs }, { crew }) => {
    const victim = crew.members[Math.floor(whom * crew.members.length)]
    if (kind === 'kill') return victim?.kill('SIGKILL')
    await victim?.kill('SIGSTOP')
    await pause(forMs)
    await victim?.kill('SIGCONT')
  },
  postgres: async ({ kind }, { servers }) => {
    if (kind === 'kill') await servers.postgres.kill('SIGKILL')
    await servers.postgres.restart()
  },
  redis: ({ kind, forMs }, { servers }) =>
    kind === 'flush' ? flush(servers.redis.connection.url) : dieFor(servers.redis, forMs),
  broker: ({ forMs }, { broker }) => dieFor(broker.server, forMs),
}

async function flush(url: string): Promise<void> {
  const client = new Redis(url)
  try {
    await client.flushall()
  } finally {
    client.disconnect()
  }
}

async function dieFor(server: Server<unknown>, forMs: number): Promise<void> {
  await server.kill('SIGKILL')
  await pause(forMs)
  await server.restart()
}
