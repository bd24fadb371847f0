import { createGuard, type Guard } from '@onceward/core'
import { redisInbox } from '@onceward/redis'
import type { Redis } from 'ioredis'
import { z } from 'zod'

const OrderPlaced = z.object({ id: z.string(), sku: z.string(), pieces: z.int() })

export function createStock(redis: Redis): Guard {
  return createGuard(
    {
      consumer: 'stock',
      inbox: redisInbox(redis, { hashTag: 'shop' }),
      schema: OrderPlaced,
      eventKey: ({ payload }) => payload.id,
    },
    async ({ payload: { sku, pieces } }, { tx }) => {
      await tx.watch('{shop}closed')
      if ((await redis.sismember('{shop}closed', sku)) === 1) return
      tx.hIncrBy('{shop}stock', sku, -pieces)
      tx.zIncrBy('{shop}bestsellers', pieces, sku)
    },
  )
}
