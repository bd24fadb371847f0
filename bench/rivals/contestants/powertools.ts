import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency'
import { CachePersistenceLayer } from '@aws-lambda-powertools/idempotency/cache'
import { createClient } from '@redis/client'
import { inTransaction, type Order, write } from '../../load/effects.ts'
import { consumeByHand } from '../by-hand.ts'
import { openPool } from '../database.ts'
import { REMEMBERED_S, toOrder } from '../orders.ts'
import type { Rival } from '../rival.ts'

/** The Lambda must time out before SQS delivers its message again. */
const MARGIN_MS = 500

/** Powertools for AWS Lambda: the idempotency utility with its Redis cache, around the handler. */
export const powertools: Rival = {
  name: 'powertools',
  hasRedis: true,
  setUp: async () => undefined,
  consume: async (surroundings) => {
    const stack = new AsyncDisposableStack()
    const pool = openPool(surroundings, stack)
    // If Redis is down, calls fail at once instead of waiting in a queue.
    const client = createClient({ url: surroundings.redisUrl, disableOfflineQueue: true })
    client.on('error', () => undefined)
    stack.defer(() => client.destroy())
    // The client retries if its first connection fails.
    const connected = client.connect().catch(() => undefined)
    await Promise.race([connected, new Promise((resolve) => client.once('error', resolve))])
    const config = new IdempotencyConfig({
      eventKeyJmesPath: 'orderId',
      throwOnNoIdempotencyKey: true,
      expiresAfterSeconds: REMEMBERED_S,
    })
    config.registerLambdaContext({
      getRemainingTimeInMillis: () => surroundings.hiddenMs - MARGIN_MS,
    })
    const handle = makeIdempotent(
      (order: Order) => inTransaction(pool, (tx) => write(tx, order)).then(() => true),
      { persistenceStore: new CachePersistenceLayer({ client }), config, keyPrefix: 'orders' },
    )
    stack.use(
      consumeByHand(surroundings, async (message) => {
        await handle(toOrder(message))
      }),
    )
    return stack
  },
}
