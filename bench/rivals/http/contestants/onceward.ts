import { createHttpGuard } from '@onceward/http'
import { expressRoute } from '@onceward/http/express'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import { Redis } from 'ioredis'
import type { Order } from '../../../load/effects.ts'
import { QUIET } from '../../../runner/observer.ts'
import { CONCURRENCY } from '../../../runner/rounds.ts'
import { withPool } from '../../database.ts'
import { charge } from '../order.ts'
import type { HttpRival } from '../rival.ts'

/** As loggers are in production: lines of debugging are off, and nothing is made for them. */
const LOGGER = { ...QUIET, isLevelEnabled: (level: string) => level === 'error' }

function onceward(hasRedis: boolean): HttpRival {
  return {
    name: hasRedis ? 'onceward-redis' : 'onceward',
    hasRedis,
    setUp: (databaseUrl) => withPool(databaseUrl, (pool) => migrate(pool).then(() => undefined)),
    serve: async (app, place) => {
      const guard = createHttpGuard(
        {
          consumer: 'orders',
          // As in the README. The pool has as many connections as those of the others.
          inbox: pgInbox({ connectionString: place.databaseUrl }),
          leases: hasRedis ? redisLeases(openRedis(place.redisUrl)) : undefined,
          tenant: 'none',
          concurrency: CONCURRENCY,
          logger: LOGGER,
        },
        async ({ payload }, { tx }) => ({ status: 201, body: await charge(tx, payload as Order) }),
      )
      app.post('/orders', expressRoute(guard))
    },
  }
}

function openRedis(url: string): Redis {
  const redis = new Redis(url)
  redis.on('error', () => undefined)
  return redis
}

/** The guard: its inbox alone, or with leases on Redis before it. */
export const ONCEWARD: readonly HttpRival[] = [onceward(false), onceward(true)]
