import type { Redis } from 'ioredis'

export async function onOrder(redis: Redis, order: { id: string; sku: string; pieces: number }) {
  const isNew = await redis.set(`seen:${order.id}`, 1, 'EX', 86_400, 'NX')
  if (isNew === null) return
  // The process dies here: the order is marked as seen, and its stock is never taken.
  await redis.hincrby('stock', order.sku, -order.pieces)
  await redis.zincrby('bestsellers', order.pieces, order.sku)
}
