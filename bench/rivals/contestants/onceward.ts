import { createGuard, type GuardEvent } from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import { consumeSqs } from '@onceward/sqs'
import { Redis } from 'ioredis'
import { type Order, write } from '../../load/effects.ts'
import { QUIET } from '../../runner/observer.ts'
import { CONCURRENCY } from '../../runner/rounds.ts'
import { CONNECTIONS, openPool, withPool } from '../database.ts'
import type { Rival } from '../rival.ts'

/** SQS hides a message a second longer than the guard holds its lease. */
const MARGIN_MS = 1_000

interface Contestant {
  readonly transaction: 'each' | 'batch'
  /** With leases on Redis before the inbox. */
  readonly hasRedis?: boolean
  /** On a pool that the user made, as the others have it, and not on one of the guard's own. */
  readonly isShared?: boolean
}

function onceward({ transaction, hasRedis = false, isShared = false }: Contestant): Rival {
  return {
    name: `${transaction}${hasRedis ? '-redis' : ''}${isShared ? '-shared' : ''}`,
    hasRedis,
    factor: transaction === 'batch' ? 5 : 1,
    setUp: (databaseUrl) => withPool(databaseUrl, (pool) => migrate(pool).then(() => undefined)),
    consume: async (surroundings) => {
      const { hiddenMs, sqs, queueUrl, batch } = surroundings
      const stack = new AsyncDisposableStack()
      const inbox = isShared
        ? pgInbox(openPool(surroundings, stack))
        : pgInbox({ connectionString: surroundings.databaseUrl, max: CONNECTIONS })
      const guard = createGuard(
        {
          consumer: 'orders',
          inbox,
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
  onceward({ transaction: 'each' }),
  onceward({ transaction: 'each', isShared: true }),
  onceward({ transaction: 'each', hasRedis: true }),
  onceward({ transaction: 'batch' }),
  onceward({ transaction: 'batch', hasRedis: true }),
]
