import { MessageHandlerConfigBuilder } from '@message-queue-toolkit/core'
import { RedisMessageDeduplicationStore } from '@message-queue-toolkit/redis-message-deduplication-store'
import { AbstractSqsConsumer } from '@message-queue-toolkit/sqs'
import { Redis } from 'ioredis'
import type { Pool } from 'pg'
import { z } from 'zod'
import { inTransaction, write } from '../../load/effects.ts'
import { QUIET } from '../../runner/observer.ts'
import { MOST, POLLS } from '../by-hand.ts'
import { openPool } from '../database.ts'
import type { OrderMessage } from '../orders.ts'
import type { Rival, Surroundings } from '../rival.ts'

const ORDER = z.object({
  id: z.string(),
  type: z.literal('order.placed'),
  timestamp: z.string(),
  deduplicationId: z.string(),
  deduplicationOptions: z.record(z.string(), z.number()),
  orderId: z.string(),
  cents: z.number(),
})

/** How long a call waits for a Redis that is down. */
const REDIS_MS = 500

const logger = { ...QUIET, error: () => undefined, fatal: () => undefined, trace: () => undefined }

class Orders extends AbstractSqsConsumer<Pool> {
  constructor({ sqs, queueUrl }: Surroundings, redis: Redis, pool: Pool) {
    const handlers = new MessageHandlerConfigBuilder<OrderMessage, Pool>().addConfig(
      ORDER,
      async (order) => {
        await inTransaction(pool, (tx) => write(tx, order))
        return { result: 'success' }
      },
    )
    super(
      {
        sqsClient: sqs,
        logger,
        errorReporter: { report: () => undefined },
        consumerErrorResolver: { processError: (error) => error },
      },
      {
        handlers: handlers.build(),
        messageTypeResolver: { messageTypePath: 'type' },
        locatorConfig: { queueUrl },
        enableConsumerDeduplication: true,
        messageDeduplicationConfig: {
          deduplicationStore: new RedisMessageDeduplicationStore({ redis }),
        },
        // As many messages in flight as the hand-written loop has.
        concurrentConsumersAmount: POLLS,
        consumerOverrides: { batchSize: MOST, waitTimeSeconds: 1 },
      },
      pool,
    )
  }
}

/** message-queue-toolkit: its SQS consumer with its Redis deduplication. */
export const messageQueueToolkit: Rival = {
  name: 'message-queue-toolkit',
  hasRedis: true,
  setUp: async () => undefined,
  consume: async (surroundings) => {
    const stack = new AsyncDisposableStack()
    const pool = openPool(surroundings, stack)
    const redis = new Redis(surroundings.redisUrl, {
      ...{ maxRetriesPerRequest: 1, commandTimeout: REDIS_MS },
    })
    redis.on('error', () => undefined)
    stack.defer(() => redis.disconnect())
    const consumer = new Orders(surroundings, redis, pool)
    stack.defer(() => consumer.close(true))
    await consumer.start()
    return stack
  },
}
