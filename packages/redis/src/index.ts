export type { IoredisLike, NodeRedisArguments, NodeRedisLike, RedisLike } from './client.ts'
export { type RedisLeases, redisLeases } from './lease-store.ts'
export type { RedisLeasesOptions } from './options.ts'
