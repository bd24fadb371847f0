import type { SweepStep } from '@onceward/core'
import { type ConsumerContext, one, texts } from '../driver/rows.ts'

/** Pages of 8 KiB in one step: some 15,000 rows at most, deleted in tens of milliseconds. */
export const PAGES_PER_STEP = 128

interface Cursor {
  readonly page: number
  readonly pages: number
}

/**
 * One step of the sweep, in one short transaction: done events older than their consumer's dedup window, of all
 * consumers, and at the end of the walk what is left of old trouble.
 *
 * Dead letters are kept for 30 days after their last failure, and at least as long as the dedup window: as long as
 * the broker can bring a copy it finds the event dead. Then row and dead letter go together; the event is unknown
 * again, as one whose effect never happened may be. The same holds for events without an effect that no broker
 * brings any more. Parked events stay: nothing else has them.
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
    }
    await connection.query(statements.moveSweepCursor, [String(isFinished ? 0 : end)])
    return { deleted: Number(deleted), finished: isFinished }
  })
}
