import { createGuard, type GuardEvent } from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import { consumeSqs } from '@onceward/sqs'
import { Redis } from 'ioredis'
import { type Order, write } from '../../load/effects.ts'
import { QUIET } from '../../runner/observer.ts'
import { CONCURRENCY } from '../../runner/rounds.ts'
import { openPool, withPool } from '../database.ts'
import type { Rival } from '../rival.ts'

/** SQS hides a message a second longer than the guard holds its lease. */
const MARGIN_MS = 1_000

/** The guard: its inbox alone, or with leases on Redis before it. */
function onceward(transaction: 'each' | 'batch', hasRedis: boolean): Rival {
  return {
    name: hasRedis ? `${transaction}-redis` : transaction,
    hasRedis,
    factor: transaction === 'batch' ? 5 : 1,
    setUp: (databaseUrl) => withPool(databaseUrl, (pool) => migrate(pool).then(() => undefined)),
    consume: async (surroundings) => {
      const { hiddenMs, sqs, queueUrl, batch } = surroundings
      const stack = new AsyncDisposableStack()
      const pool = openPool(surroundings, stack)
      const guard = createGuard(
        {
          consumer: 'orders',
          inbox: pgInbox(pool),
          leases: hasRedis ? redisLeases(openRedis(surroundings.redisUrl, stack)) : undefined,
          transaction,
          concurrency: CONCURRENCY,
          leaseMs: hiddenMs - MARGIN_MS,
          logger: QUIET,
        },
        ({ payload }: GuardEvent<Order>, { tx }) => write(tx, payload),
      )
      stack.defer(() => guard.close())
      const size = transaction === 'batch' ? { batch: { size: batch } } : {}
      stack.use(await consumeSqs(sqs, guard, { queueUrl, ...size }))
      return stack
    },
  }
}

function openRedis(url: string, stack: AsyncDisposableStack): Redis {
  const redis = new Redis(url)
  redis.on('error', () => undefined)
  stack.defer(() => redis.disconnect())
  return redis
}

export const ONCEWARD: readonly Rival[] = [
  onceward('each', false),
  onceward('each', true),
  onceward('batch', false),
  onceward('batch', true),
]
