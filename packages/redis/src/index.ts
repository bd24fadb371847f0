export {
  type ApproximateDedupOptions,
  approximateDedup,
  type FalsePositives,
  type RedisDedup,
} from './approximate/approximate-dedup.ts'
export type { IoredisLike, NodeRedisArguments, NodeRedisLike, RedisLike } from './client.ts'
export type { RedisTransaction, RedisValue } from './inbox/handle.ts'
export { type RedisInbox, redisInbox } from './inbox/inbox.ts'
export type { RedisInboxOptions } from './inbox/options.ts'
export { type RedisLeases, redisLeases } from './lease-store.ts'
export type { RedisLeasesOptions } from './options.ts'
