import { hasMethod } from '@onceward/core/adapter'
import type pg from 'pg'

/** Methods of what is given by mistake: pools, Kysely, clients of Redis, stores, promises. */
const CLIENT_METHODS = [
  'connect',
  'query',
  'getExecutor',
  'evalsha',
  'evalSha',
  'open',
  'claim',
  'then',
]

/** The value, if it is what `new Pool()` takes, and no client of another kind. */
export function poolConfig(value: unknown): pg.PoolConfig | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const prototype: unknown = Object.getPrototypeOf(value)
  const isPlain = prototype === Object.prototype || prototype === null
  return isPlain && !CLIENT_METHODS.some((name) => hasMethod(value, name)) ? value : undefined
}
