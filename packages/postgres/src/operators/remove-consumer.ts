import { refuseUnknownNames } from '@onceward/core/adapter'
import { inTransaction, type PoolLike, refuseNoPool } from '../client.ts'
import { answers } from '../driver/rows.ts'
import { createStatements } from '../statements/index.ts'
import type { LeavingRow } from '../statements/removal.ts'
import { NAMES, type ResumeOptions, unknownConsumer, valuesOf } from './pauses.ts'

/** Options of {@link removeConsumer}. */
export interface RemoveOptions extends ResumeOptions {
  /**
   * Whether it is removed although events of it wait or are dead. They stay stored: dead letters are listed until they are
   * discarded, and what waits runs when a guard of this name starts again. @defaultValue `false`
   */
  readonly leaveEvents?: boolean | undefined
}

/** What {@link removeConsumer} did. */
export type Removal =
  | { readonly kind: 'removed' }
  /** A worker of it has sent a heartbeat within 90 s, or a guard without heartbeats has registered within two hours. */
  | { readonly kind: 'running'; readonly workers: readonly string[] }
  /** Events of it wait, or are dead: see {@link RemoveOptions.leaveEvents}. */
  | { readonly kind: 'unfinished'; readonly waiting: number; readonly deadLetters: number }

/**
 * Removes a consumer that was taken away or renamed from `status`, `doctor`, the console and metrics. Refuses while a
 * worker of it lives. Written down in the table `audit`.
 *
 * No event is forgotten: the rows of processed events stay for their dedup window, so if a guard of this name starts
 * again, copies of old events are duplicates as before, and the consumer is shown again.
 *
 * @param pool - pg's `Pool`, or anything with its `connect()`.
 * @throws {@link ConfigurationError} if no guard of this consumer has ever registered in the schema.
 *
 * @example
 * ```ts
 * import { removeConsumer } from '@onceward/postgres'
 *
 * const removal = await removeConsumer(pool, 'billing-v1', { by: 'ana', why: 'it is billing now' })
 * if (removal.kind === 'running') console.log(`stop ${removal.workers.join(', ')} first`)
 * ```
 */
export async function removeConsumer(
  pool: PoolLike,
  consumer: string,
  options: RemoveOptions = {},
): Promise<Removal> {
  refuseNoPool('removeConsumer', pool)
  refuseUnknownNames('removeConsumer', options, { ...NAMES, leaveEvents: true })
  const statements = createStatements(options.schema)
  return inTransaction(pool, async (client): Promise<Removal> => {
    // A guard that registers meanwhile waits for the lock, and brings the consumer back.
    const [row] = answers<LeavingRow>(await client.query(statements.lockLeaving, [consumer]))
    if (row === undefined) throw unknownConsumer(statements, consumer)
    const { deadLetters, isRegistered, waiting, workers } = row
    if (isRegistered || workers.length > 0) return { kind: 'running', workers }
    if (waiting + deadLetters > 0 && options.leaveEvents !== true) {
      return { kind: 'unfinished', waiting, deadLetters }
    }
    await client.query(statements.removeConsumer, valuesOf(consumer, options))
    return { kind: 'removed' }
  })
}
