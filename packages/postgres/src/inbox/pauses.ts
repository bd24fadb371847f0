import type { Pause, PauseStore } from '@onceward/core/ports'
import { answers, type ConsumerContext } from '../driver/rows.ts'
import type { PauseRow } from '../statements/pauses.ts'
import { toShortText } from '../statements/text-columns.ts'

/** The pauses of a consumer, in its row of `consumers`. */
export function pauseStore({ consumerId, driver, statements }: ConsumerContext): PauseStore {
  const id = String(consumerId)
  return {
    read: async () => {
      const [row] = answers<PauseRow>(await driver.query(statements.readPause, [id]))
      return row && toPause(row)
    },
    write: async ({ by, forMs, source, why }) => {
      const ms = forMs === undefined ? null : String(forMs)
      const values = [id, ms, source, toShortText(by) ?? null, toShortText(why) ?? null]
      await driver.query(statements.writePause, values)
    },
    end: async () => {
      await driver.query(statements.endPause, [id])
    },
  }
}

const toPause = ({ by, forMs, source, why }: PauseRow): Pause => ({
  source,
  by: by ?? undefined,
  why: why ?? undefined,
  forMs: forMs ?? undefined,
})
