import { createClient } from 'redis'
import { env } from './env.ts'
import { proveLeases } from './leases.ts'

const redis = createClient({ url: env('REDIS_URL') })
await redis.connect()
await proveLeases(redis)
await redis.quit()
console.log('proved')
