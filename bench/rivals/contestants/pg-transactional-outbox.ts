import { setTimeout as pause } from 'node:timers/promises'
// From here it is the rival's own: in the run that installs the rivals, the benchmark has another, whose connections
// the rival would never give back.
import { Pool } from 'pg'
import {
  DatabaseSetupExporter,
  executeTransaction,
  getDisabledLogger,
  IsolationLevel,
  initializeMessageStorage,
  initializePollingMessageListener,
} from 'pg-transactional-outbox'
import { type Order, write } from '../../load/effects.ts'
import { CONCURRENCY } from '../../runner/rounds.ts'
import { consumeByHand } from '../by-hand.ts'
import { execute, openPool } from '../database.ts'
import { toOrder } from '../orders.ts'
import type { Rival, Surroundings } from '../rival.ts'

const SCRIPT = {
  ...{ outboxOrInbox: 'inbox', database: 'postgres', schema: 'public', table: 'inbox' },
  ...{ listenerRole: 'postgres', nextMessagesName: 'next_inbox_messages' },
}

/** With the default of 500 ms it would wait; with 16 concurrent handlers it hardly ever does. */
const POLLING_MS = 10

/**
 * A fifth of the default. The poll and the handler sometimes lock the same row (NOWAIT), and then the event waits
 * for this long.
 */
const LOCK_MS = 1_000

/** A stuck consumer never finishes its shutdown. */
const SHUTDOWN_MS = 5_000

/** Its inbox: a message is stored and deleted from the queue, and a listener that polls the table runs the handler. */
export const pgTransactionalOutbox: Rival = {
  name: 'pg-transactional-outbox',
  hasRedis: false,
  factor: 0.5,
  setUp: (databaseUrl) =>
    execute(databaseUrl, DatabaseSetupExporter.createPollingScript(SCRIPT, true)),
  consume: async (surroundings) => {
    const stack = new AsyncDisposableStack()
    const logger = getDisabledLogger()
    const config = configOf(surroundings)
    const [shutdown] = initializePollingMessageListener(
      config,
      [
        {
          aggregateType: 'order',
          messageType: 'placed',
          handle: ({ payload }, tx) => write(tx, payload as Order),
        },
      ],
      logger,
    )
    stack.defer(() => Promise.race([shutdown(), pause(SHUTDOWN_MS)]))
    const pool = openPool(surroundings, stack, Pool)
    const store = initializeMessageStorage(config, logger)
    stack.use(
      consumeByHand(surroundings, async (message) => {
        const payload = toOrder(message)
        const { id } = payload
        const stored = {
          id,
          aggregateType: 'order',
          aggregateId: id,
          messageType: 'placed',
          payload,
        }
        await executeTransaction(
          await pool.connect(),
          (tx) => store({ ...stored, concurrency: 'parallel' }, tx),
          IsolationLevel.ReadCommitted,
        )
      }),
    )
    return stack
  },
}

function configOf({ databaseUrl }: Surroundings) {
  return {
    outboxOrInbox: 'inbox',
    dbHandlerConfig: { connectionString: databaseUrl, max: 2 * CONCURRENCY },
    dbListenerConfig: { connectionString: databaseUrl },
    settings: {
      dbSchema: 'public',
      dbTable: 'inbox',
      enableMaxAttemptsProtection: true,
      enablePoisonousMessageProtection: true,
      nextMessagesFunctionName: 'next_inbox_messages',
      nextMessagesBatchSize: CONCURRENCY,
      nextMessagesLockInMs: LOCK_MS,
      nextMessagesPollingIntervalInMs: POLLING_MS,
    },
  } as const
}
