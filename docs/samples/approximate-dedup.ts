import { createGuard, type Guard } from '@onceward/core'
import { approximateDedup } from '@onceward/redis'
import type { Redis } from 'ioredis'
import { z } from 'zod'

const Click = z.object({ id: z.string(), page: z.string() })

export function createClicks(redis: Redis): Guard {
  return createGuard(
    {
      consumer: 'clicks',
      dedup: approximateDedup({ redis, windowMs: 3_600_000 }),
      schema: Click,
      eventKey: ({ payload }) => payload.id,
    },
    async ({ payload }) => {
      await redis.hincrby('clicks', payload.page, 1)
    },
  )
}
