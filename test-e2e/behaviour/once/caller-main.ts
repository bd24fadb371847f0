/*
 * A process that calls `once` for one key ten times at a time, and each call again until it has an answer.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { createGuard, InProgressError, once } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import { Pool } from 'pg'
import type { CallerConfig, Told } from './protocol.ts'

const { calls, isStuck, url } = JSON.parse(process.argv[2] ?? '{}') as CallerConfig
const tell = (told: Told): void => void process.send?.(told)

const pool = new Pool({ connectionString: url })
const reports = createGuard({ consumer: 'reports', inbox: pgInbox(pool) }, async (_, { tx }) => {
  const { rows } = await tx.query('insert into reports (pid) values ($1) returning id', [
    process.pid,
  ])
  tell({ kind: 'running' })
  if (isStuck) await new Promise(() => undefined)
  return { report: rows[0].id as number }
})

async function callUntilAnswered(): Promise<void> {
  for (;;) {
    try {
      tell({ kind: 'answer', answer: await once(reports, { key: 'report-2026-11-29' }) })
      return
    } catch (error) {
      if (!(error instanceof InProgressError)) throw error
      tell({ kind: 'waiting' })
      await sleep(Math.min(error.afterMs, 200))
    }
  }
}

await Promise.all(Array.from({ length: calls }, callUntilAnswered))
await reports.close()
await pool.end()
