import { isRemoved } from './removal.ts'

/** A worker whose last heartbeat is older has most likely ended: three heartbeats are missing. */
export const WORKER_SILENT_MS = 90_000

export interface WorkerStatements {
  /**
   * `$1` worker id, `$2` consumer id, `$3` name. Writes the time of the server, and deletes what workers of the consumer
   * that were killed have left: a pod that restarts all day leaves a row each time. A worker that was silent while its
   * consumer was removed brings it back.
   */
  readonly heartbeat: string
  /** `$1` worker id. Deletes its row, and keeps the time. */
  readonly endWorker: string
  /** How long ago each consumer had its last heartbeat, ms, without those that never had one; an expression of JSON. */
  readonly workerSilences: string
}

/** Kept for a while, so that operators see which worker went silent. */
const KEPT = `interval '10 minutes'`
const MOST_DELETED = 1_000

export function workerStatements(schema: string): WorkerStatements {
  return {
    heartbeat: `
with gone as (
  delete from ${schema}.workers where worker_id = any(array(
    select worker_id from ${schema}.workers
    where consumer_id = $2::text::integer and seen_at < now() - ${KEPT} and worker_id <> $1::text::uuid
    limit ${MOST_DELETED} for update skip locked
  ))
),
back as (
  update ${schema}.consumers c set seen_at = now() where c.id = $2::text::integer and ${isRemoved('c')}
)
insert into ${schema}.workers (worker_id, consumer_id, name) values ($1::text::uuid, $2::text::integer, $3::text)
on conflict (worker_id) do update set seen_at = now()`,

    endWorker: `
with ended as (delete from ${schema}.workers where worker_id = $1::text::uuid returning consumer_id)
update ${schema}.consumers c set worker_ended_at = now() from ended where c.id = ended.consumer_id`,

    workerSilences: `(
  select coalesce(json_object_agg(name, greatest(0, extract(epoch from now() - seen_at) * 1000)::bigint), '{}'::json) from (
    select c.name, greatest(c.worker_ended_at, (select max(w.seen_at) from ${schema}.workers w where w.consumer_id = c.id)) as seen_at
    from ${schema}.consumers c where not ${isRemoved('c')}
  ) as consumers where seen_at is not null
)`,
  }
}
