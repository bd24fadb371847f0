import { Redis } from 'iovalkey'
import { env } from './env.ts'
import { proveLeases } from './leases.ts'

const redis = new Redis(env('REDIS_URL'))
await proveLeases(redis)
await redis.quit()
console.log('proved')
