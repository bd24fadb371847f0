import type { ConsumerRegistration } from '@onceward/core/ports'
import pg from 'pg'
import { SPARE_CONNECTIONS } from '../driver/pool-slots.ts'

/**
 * Longest wait for the answer to a new connection, ms. pg has no limit: a connection that a failover leaves unanswered
 * would keep its place in the pool until TCP gives it up, which takes minutes.
 */
const ANSWER_MS = 10_000

/** The pool's own `connectionTimeoutMillis` would make a timer each time an idle connection is taken. */
class OwnClient extends pg.Client {
  constructor(config: pg.ClientConfig = {}) {
    const { password } = config
    // The pool hides the password from enumeration, so the copy of its options has none.
    super({ connectionTimeoutMillis: ANSWER_MS, ...config, ...(password && { password }) })
  }
}

/**
 * Makes a pool for one guard.
 *
 * @param config - As for `new Pool()` of pg. Without `max`, the pool carries the guard's `concurrency`; without
 * `connectionTimeoutMillis`, it waits 10 seconds for a connection.
 */
export function openOwnPool(
  config: pg.PoolConfig,
  { concurrency, consumer, logger }: ConsumerRegistration,
): pg.Pool {
  const max = concurrency + SPARE_CONNECTIONS
  const pool = new pg.Pool({ application_name: 'onceward', Client: OwnClient, max, ...config })
  // The pool has removed the connection already. Without a listener the event would end the process.
  pool.on('error', ({ message }) => {
    logger.debug({ consumer, message }, 'PostgreSQL ended an idle connection')
  })
  return pool
}
