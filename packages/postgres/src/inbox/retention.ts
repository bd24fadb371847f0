import type { ConsumerRegistration, SweepStep } from '@onceward/core/ports'
import type { Connection } from '../driver/driver.ts'
import { type ConsumerContext, one, texts } from '../driver/rows.ts'
import { sqlState } from '../errors.ts'
import { QUERY_CANCELED } from '../sqlstates.ts'
import type { Statements } from '../statements/index.ts'
import { SweepClock, type SweepTime } from './sweep-clock.ts'

/** Pages of 8 KiB in one step: at most about 15,000 rows, deleted in tens of milliseconds. */
export const PAGES_PER_STEP = 128
/** Dead letters, failures and refused messages that the last step deletes, for each page of its own. */
const TROUBLED_PER_PAGE = 8

interface Cursor extends SweepTime {
  readonly page: number
  readonly pages: number
}

type Parts = Pick<ConsumerContext, 'statements'> & {
  readonly driver: Pick<ConsumerContext['driver'], 'shortTransaction'>
  readonly registration: Pick<ConsumerRegistration, 'consumer' | 'logger' | 'runtime'>
  /** An operator confirms the clock of the server, in the transaction of the first step: nothing is confirmed if it fails. */
  readonly confirmsClock?: boolean | undefined
}

/**
 * The sweep of one guard. Each call is one step, in one short transaction: it deletes done events older than their
 * consumer's dedup window, of all consumers. The last step also deletes old dead letters and old failures.
 *
 * Dead letters are kept for 30 days after their last failure, and at least as long as the dedup window: while the
 * broker can redeliver a copy, the copy finds the event dead. Then the row and the dead letter are deleted together,
 * which is safe because the effect never happened. The same holds for events without an effect that no broker
 * redelivers any more. Parked events stay, because no broker has them. A dead letter whose consumer has a dead-letter
 * place stays until it is published or discarded.
 *
 * @returns undefined while another process sweeps.
 */
export function createSweep({
  driver,
  statements,
  registration,
  confirmsClock = false,
}: Parts): () => Promise<SweepStep | undefined> {
  const clock = new SweepClock(registration.runtime)
  let size = PAGES_PER_STEP
  let isUnconfirmed = confirmsClock
  const step = async (connection: Connection): Promise<SweepStep | undefined> => {
    const [isMine] = texts(await connection.query(statements.trySweepLock))
    if (isMine !== 'true') return undefined
    if (isUnconfirmed) await connection.query(statements.confirmClock)
    const cursor = await one<Cursor>(connection, statements.readSweepCursor)
    const doubt = clock.doubt(cursor)
    if (doubt !== undefined) {
      reportDoubt(registration, cursor, {
        doubt,
        confirm: statements.confirmClock,
      })
      return { deleted: 0, finished: true }
    }
    clock.trust(cursor)
    return deleteOld(connection, { statements, cursor, size })
  }
  return async () => {
    try {
      const answer = await driver.shortTransaction(step)
      if (answer !== undefined) isUnconfirmed = false
      size = Math.min(size + 1, PAGES_PER_STEP)
      return answer
    } catch (error) {
      // A step that was too large for a slow server would be so at every try.
      if (sqlState(error) !== QUERY_CANCELED || size === 1) throw error
      size = Math.floor(size / 2)
      return { deleted: 0, finished: false }
    }
  }
}

async function deleteOld(
  connection: Connection,
  parts: { readonly statements: Statements; readonly cursor: Cursor; readonly size: number },
): Promise<SweepStep> {
  const { statements, cursor, size } = parts
  const { page, pages } = cursor
  const end = page + size
  const range = [`(${page},0)`, `(${end},0)`]
  const [deleted] = texts(await connection.query(statements.sweepPages, range))
  const isFinished = end >= pages
  if (isFinished) {
    const most = [String(size * TROUBLED_PER_PAGE)]
    await connection.query(statements.sweepTroubled, most)
    await connection.query(statements.sweepRefused, most)
    await connection.query(statements.sweepSuspects, most)
  }
  await connection.query(statements.moveSweepCursor, [String(isFinished ? 0 : end)])
  return { deleted: Number(deleted), finished: isFinished }
}

function reportDoubt(
  { consumer, logger, runtime }: Parts['registration'],
  { nowMs, sweptMs }: SweepTime,
  doubted: { readonly doubt: string; readonly confirm: string },
): void {
  const iso = (ms: number): string => new Date(ms).toISOString()
  logger.error(
    {
      ...{ consumer, ...doubted, databaseTime: iso(nowMs), processTime: iso(runtime.now()) },
      sweptAt: sweptMs === null ? undefined : iso(sweptMs),
    },
    'nothing is swept, because a clock may be wrong: set the clocks right; if the clock of the database is right, run the statement in `confirm`',
  )
}
