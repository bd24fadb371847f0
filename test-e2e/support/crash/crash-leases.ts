import type { LeaseStore } from '@onceward/core'
import { eventIdOf, type LeaseSession } from '@onceward/core/ports'
import { redisLeases } from '@onceward/redis'
import { Redis } from 'ioredis'
import type { WorkerConfig } from '../workers/protocol.ts'
import type { Crashes } from './crash.ts'

type RedisConfig = Pick<WorkerConfig, 'redisPort' | 'redisBudgetMs' | 'redisHold'>

const PATIENT_MS = 10_000
const RECONNECT_MS = 50

/**
 * Leases in Redis, or none. A worker that is to die at a point claims every event, so that the point is reached and the lease
 * is found there. The others claim by need.
 */
export function leasesOf(
  { redisPort, redisBudgetMs = PATIENT_MS, redisHold: hold }: RedisConfig,
  crash: Crashes,
): LeaseStore | undefined {
  if (redisPort === undefined) return undefined
  const client = new Redis(redisPort, { retryStrategy: () => RECONNECT_MS })
  // ioredis reconnects by itself, and prints every error if there is no listener.
  client.on('error', () => undefined)
  const leases = redisLeases(client, { budgetMs: redisBudgetMs, hold })
  if (crash.armed.length === 0) return leases
  return {
    ...leases,
    open: async (registration) => {
      const session = (await leases.open?.(registration)) ?? leases
      return watchedSession(session, crash, registration.consumer)
    },
  }
}

function watchedSession(session: LeaseSession, crash: Crashes, consumer: string): LeaseSession {
  return {
    claim: (claims) => session.claim(claims),
    renew: (held, leaseMs) => session.renew(held, leaseMs),
    complete: async (done, rememberMs) => {
      const ids = new Set<string>(done.map(({ id }) => id))
      const orders = crash.armed.filter((order) => ids.has(eventIdOf(consumer, undefined, order)))
      await crash.at('before-complete', orders)
      return session.complete(done, rememberMs)
    },
    fail: (failed) => session.fail(failed),
    release: (held) => session.release(held),
    bury: (dead, rememberMs) => session.bury(dead, rememberMs),
  }
}
