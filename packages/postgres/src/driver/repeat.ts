import type { Runtime } from '@onceward/core'
import { pauseMs } from '@onceward/core/adapter'
import { diagnose } from '../errors.ts'

/**
 * Most runs of a short transaction. Each lost race means that another one made progress, so a few are enough.
 */
const MOST_RUNS = 6
const PAUSES = { baseMs: 10, maxMs: 200 }

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
      return await run()
    } catch (error) {
      if (failures + 1 >= MOST_RUNS || diagnose(error) !== 'serialization') throw error
    }
    const delayMs = pauseMs(PAUSES, failures, () => runtime.random())
    await new Promise<void>((resolve) => {
      runtime.setTimer(resolve, delayMs)
    })
  }
}
