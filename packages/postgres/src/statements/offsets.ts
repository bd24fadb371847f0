import type { FenceMove } from '@onceward/core/ports'

export interface OffsetStatements {
  /**
   * `$1` partition id, `$2` consumer id, `$3` JSON of the claim. Raises the epoch, which waits for an open transaction of
   * the owner before. No row: the stored partition is of another cluster, topic or group.
   */
  readonly claimPartition: string
  /** `$1` partition id. */
  readonly readPartition: string
}

const STATE = `json_build_object(
  'epoch', epoch, 'generation', generation, 'next', next_offset, 'open', open_offsets,
  'of', json_build_object('clusterId', cluster_id, 'topicId', topic_id, 'groupId', group_id))::text as answer`

export function offsetStatements(schema: string): OffsetStatements {
  return {
    claimPartition: `
insert into ${schema}.kafka_offsets as o (partition_id, consumer_id, topic, partition, topic_id, cluster_id, group_id, next_offset)
select $1::text::uuid, $2::text::integer, c ->> 'topic', (c ->> 'partition')::integer, c ->> 'topicId', c ->> 'clusterId', c ->> 'groupId', (c ->> 'startsAt')::bigint
from (select $3::text::json as c) as claim
on conflict (partition_id) do update set epoch = o.epoch + 1, claimed_at = now(),
  cluster_id = coalesce(nullif(excluded.cluster_id, ''), o.cluster_id), topic_id = excluded.topic_id, group_id = excluded.group_id
  where ('' in (o.cluster_id, excluded.cluster_id) or o.cluster_id = excluded.cluster_id) and o.topic_id in ('', excluded.topic_id) and o.group_id in ('', excluded.group_id)
returning ${STATE}`,
    readPartition: `select ${STATE} from ${schema}.kafka_offsets where partition_id = $1::text::uuid`,
  }
}

/** The operator of PostgreSQL, whatever the user's `search_path` is. */
const EQUALS = 'operator(pg_catalog.=)'

/**
 * Moves a partition on: all its records in one transaction have this one row. Waits for the transaction of another owner.
 * Its values are numbers and ids that the guard has made, so nothing is quoted.
 */
export function moveText({ epoch, id, next, old, open }: FenceMove, schema: string): string {
  const isMine = `partition_id ${EQUALS} '${id}' and epoch ${EQUALS} ${epoch} and next_offset ${EQUALS} ${old}`
  return `update ${schema}.kafka_offsets set next_offset = ${next}, open_offsets = '{${open.flat().join()}}' where ${isMine}`
}
