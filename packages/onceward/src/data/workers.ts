import { WORKER_SILENT_MS } from '@onceward/postgres/operator'
import { type Database, ms, type Query } from './database.ts'

/** A guard that has sent a heartbeat within the last 90 s. */
export interface WorkerStatus {
  /** Host and process id. In a container the host is usually the name of the pod. */
  readonly name: string
  readonly startedAtMs: number
  readonly seenAtMs: number
}

/** The workers of one consumer, by the clock of the database. */
export interface ConsumerWorkers {
  readonly workers: readonly WorkerStatus[]
  /**
   * Since when the consumer has had no worker. Null if it has one, or if that is not known: a Lambda function sends no
   * heartbeats, and neither does an earlier release.
   */
  readonly noWorkerSinceMs: number | null
}

interface WorkerRow extends WorkerStatus {
  readonly consumerId: number
}

interface Consumer {
  readonly id: number
  readonly seenAtMs: number
  readonly workerEndedAtMs: number | null
}

/** The table is asked only if this login may read it: roles of an earlier docs/least-privilege.sql may not. */
export async function readWorkers(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
): Promise<(consumer: Consumer, nowMs: number) => ConsumerWorkers> {
  const [right] = await query<{ readonly mayWorkers: boolean }>(
    `select has_table_privilege($1, 'select') as "mayWorkers"`,
    [`${quoted}.workers`],
  )
  const rows =
    right?.mayWorkers === true
      ? await query<WorkerRow>(
          `select consumer_id as "consumerId", name, ${ms('started_at')} as "startedAtMs", ${ms('seen_at')} as "seenAtMs"
           from ${quoted}.workers order by started_at, worker_id`,
        )
      : []
  return (consumer, nowMs) =>
    workersOf(
      consumer,
      rows.filter(({ consumerId }) => consumerId === consumer.id),
      nowMs,
    )
}

export function workersOf(
  { seenAtMs, workerEndedAtMs }: Omit<Consumer, 'id'>,
  rows: readonly WorkerStatus[],
  nowMs: number,
): ConsumerWorkers {
  const workers = rows
    .filter((row) => nowMs - row.seenAtMs <= WORKER_SILENT_MS)
    .map(({ name, startedAtMs, seenAtMs: lastMs }) => ({ name, startedAtMs, seenAtMs: lastMs }))
  const lastMs = Math.max(workerEndedAtMs ?? 0, ...rows.map((row) => row.seenAtMs))
  // A guard that registers after the last heartbeat sends none.
  const isKnown = lastMs > 0 && seenAtMs <= lastMs + WORKER_SILENT_MS
  return { workers, noWorkerSinceMs: isKnown && workers.length === 0 ? lastMs : null }
}
