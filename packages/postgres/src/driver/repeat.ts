import { pauseMs } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import { diagnose, isLeftUnfit, isRacingReindex } from '../errors.ts'

/**
 * Most runs of a short transaction. Each lost race means that another one made progress, so a few are enough.
 */
const MOST_RUNS = 6
const PAUSES = { baseMs: 10, maxMs: 200 }

/** Most connections that are tried for one that is fit: more than pools that share a connection with handlers have. */
export const MOST_CONNECTIONS = 25

/**
 * Whether a transaction is begun again on another connection after its `refused`th refusal. The callers ask from their
 * own handling of errors, so that a claim that succeeds pays no promise for it.
 */
export const triesAnother = (error: unknown, refused: number): boolean =>
  (refused < MOST_CONNECTIONS && isLeftUnfit(error)) ||
  (refused < MOST_RUNS && isRacingReindex(error))

/**
 * Runs a transaction of onceward on the next connection if its connection has a role without rights on our tables, or is
 * inside of a transaction: a handler or another user of the pool may have left that. `run` closes such a connection, so
 * in the end the pool opens a new one. With the last one the rights are really missing, and the error is thrown.
 */
async function onFitConnection<Result>(run: () => Promise<Result>): Promise<Result> {
  for (let refused = 1; ; refused += 1) {
    try {
      return await run()
    } catch (error) {
      if (!triesAnother(error, refused)) throw error
    }
  }
}

/**
 * Runs a transaction again that lost against a concurrent one (`serialization_failure`, `deadlock_detected`), which is
 * not a failure of the store. After the last run the error is thrown.
 */
export async function repeated<Result>(
  runtime: Runtime,
  run: () => Promise<Result>,
): Promise<Result> {
  for (let failures = 0; ; failures += 1) {
    try {
      return await onFitConnection(run)
    } catch (error) {
      if (failures + 1 >= MOST_RUNS || diagnose(error) !== 'serialization') throw error
    }
    const delayMs = pauseMs(PAUSES, failures, () => runtime.random())
    await new Promise<void>((resolve) => {
      runtime.setTimer(resolve, delayMs)
    })
  }
}
