import { createGuard, InProgressError, once } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import type { Pool } from 'pg'
import { z } from 'zod'

const Day = z.object({ day: z.iso.date() })

export function createReports(pool: Pool) {
  return createGuard(
    { consumer: 'reports', inbox: pgInbox(pool), schema: Day },
    async ({ payload: { day } }, { tx }) => {
      const { rows } = await tx.query(
        `insert into reports (day, cents) select $1, coalesce(sum(cents), 0)::int from charges
         returning cents`,
        [day],
      )
      return { day, cents: rows[0].cents as number }
    },
  )
}

/** Every replica calls it at the same tick. One of them writes the report, and all get its answer. */
export async function report(
  reports: ReturnType<typeof createReports>,
  tick: Date,
): Promise<{ readonly day: string; readonly cents: number } | undefined> {
  const day = tick.toISOString().slice(0, 10)
  try {
    return await once(reports, { key: `report-${day}`, payload: { day } })
  } catch (error) {
    // Another replica is at work. If it dies, the next call runs the handler.
    if (error instanceof InProgressError) return undefined
    throw error
  }
}
