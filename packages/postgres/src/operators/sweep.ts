import type { Logger } from '@onceward/core'
import { systemRuntime } from '@onceward/core/ports'
import { inTransaction, type PoolClientLike, type PoolLike } from '../client.ts'
import type { Connection } from '../driver/driver.ts'
import { one } from '../driver/rows.ts'
import { createSweep } from '../inbox/retention.ts'
import { createStatements } from '../statements/index.ts'

/** How a sweep ended. */
export type SweepReport =
  /** The whole table was read. `deleted` counts done events that were older than their dedup window. */
  | { readonly kind: 'swept'; readonly deleted: number }
  /** Another process swept all the time. */
  | { readonly kind: 'busy'; readonly deleted: number }
  /** A clock may be wrong, so rows must not be deleted by their age. */
  | { readonly kind: 'doubtful'; readonly deleted: number; readonly doubt: string }

/** How far a sweep has come in the table of processed events. */
interface Position {
  /** The next page to read. */
  readonly page: number
  /** Of the whole table. */
  readonly pages: number
}

/** Options of {@link sweep}. */
export interface SweepOptions {
  /** Schema of the tables. @defaultValue `onceward` */
  readonly schema?: string | undefined
  /**
   * First confirm, for all guards, that the clock of the database is right. If the login may not sweep, nothing is
   * confirmed. @defaultValue false
   */
  readonly confirmsClock?: boolean | undefined
  /** Called after each step, which takes tens of milliseconds. */
  readonly onStep?: ((step: Position) => void) | undefined
}

/** Guards sweep one short step at a time, so the lock is free most of the time. */
const TRIES = 40
const PAUSE_MS = 250

/**
 * Sweeps the whole table once, as running guards do in small steps: for a database whose consumers do not run, or to see
 * the effect of a shorter dedup window at once.
 */
export async function sweep(pool: PoolLike, options: SweepOptions = {}): Promise<SweepReport> {
  const statements = createStatements(options.schema)
  let doubt: string | undefined
  const logger: Logger = {
    ...{ debug: () => undefined, info: () => undefined, warn: () => undefined },
    error: (fields: object) => {
      doubt = String(Reflect.get(fields, 'doubt'))
    },
  }
  const shortTransaction = <Result>(work: (connection: Connection) => Promise<Result>) =>
    inTransaction(pool, (client) => work(connectionOf(client)))
  const step = createSweep({
    ...{ driver: { shortTransaction }, statements, confirmsClock: options.confirmsClock },
    registration: { consumer: 'onceward sweep', logger, runtime: systemRuntime },
  })
  const position = (): Promise<Position> =>
    shortTransaction((connection) => one<Position>(connection, statements.readSweepCursor))
  // A sweep that begins in the middle of the table reads the beginning in a second lap.
  let laps = (await position()).page === 0 ? 1 : 2
  let deleted = 0
  for (let tries = TRIES; laps > 0 && tries > 0; ) {
    const answer = await step()
    if (doubt !== undefined) return { kind: 'doubtful', deleted, doubt }
    if (answer === undefined) {
      tries -= 1
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
      continue
    }
    deleted += answer.deleted
    if (answer.finished) laps -= 1
    if (options.onStep !== undefined) options.onStep(await position())
  }
  return laps === 0 ? { kind: 'swept', deleted } : { kind: 'busy', deleted }
}

const connectionOf = (client: PoolClientLike): Connection => ({
  query: async (text, values) => {
    const { rows, rowCount } = await client.query(text, values)
    return { rows, rowCount: rowCount ?? 0 }
  },
})
