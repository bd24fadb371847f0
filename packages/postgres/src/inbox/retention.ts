import type { SweepStep } from '@onceward/core'
import { type ConsumerContext, one, texts } from '../driver/rows.ts'

/** Pages of 8 KiB in one step: at most about 15,000 rows, deleted in tens of milliseconds. */
export const PAGES_PER_STEP = 128

interface Cursor {
  readonly page: number
  readonly pages: number
}

/**
 * One step of the sweep, in one short transaction: deletes done events older than their consumer's dedup window, of
 * all consumers. The last step also deletes old dead letters and old failures.
 *
 * Dead letters are kept for 30 days after their last failure, and at least as long as the dedup window: while the
 * broker can redeliver a copy, the copy finds the event dead. Then the row and the dead letter are deleted together,
 * which is safe because the effect never happened. The same holds for events without an effect that no broker
 * redelivers any more. Parked events stay, because no broker has them.
 *
 * @returns undefined while another process sweeps.
 */
export function sweep({
  driver,
  statements,
}: Pick<ConsumerContext, 'driver' | 'statements'>): Promise<SweepStep | undefined> {
  return driver.shortTransaction(async (connection) => {
    const [isMine] = texts(await connection.query(statements.trySweepLock))
    if (isMine !== 'true') return undefined
    const { page, pages } = await one<Cursor>(connection, statements.readSweepCursor)
    const end = page + PAGES_PER_STEP
    const range = [`(${page},0)`, `(${end},0)`]
    const [deleted] = texts(await connection.query(statements.sweepPages, range))
    const isFinished = end >= pages
    if (isFinished) {
      await connection.query(statements.sweepTroubled)
      await connection.query(statements.sweepRefused)
      await connection.query(statements.sweepSuspects)
    }
    await connection.query(statements.moveSweepCursor, [String(isFinished ? 0 : end)])
    return { deleted: Number(deleted), finished: isFinished }
  })
}
