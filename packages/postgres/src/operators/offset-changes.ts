import { inTransaction, type PoolLike } from '../client.ts'
import { quotedSchema } from '../statements/schema-name.ts'

/** Which stored partitions. */
interface StoredPartitions {
  readonly schema?: string | undefined
  readonly consumer: string
  readonly topic: string
  /** All, if it is left out. */
  readonly partition?: number | undefined
}

/** A partition as it was before. */
export interface ResetPartition {
  readonly partition: number
  /** Every record below it was done, except for the open ones. */
  readonly nextOffset: number
  /** Pairs: from the first offset to the one before the second. */
  readonly open: readonly number[]
}

/**
 * Lets a consumer go on with another record of its partitions. From there on all records run, also those that have run
 * before, as other events. Members that run are fenced, and claim the partitions anew. Answers what the partitions were before.
 *
 * The next member that claims a partition decides of which cluster, topic and group it is.
 */
export function resetOffsets(
  pool: PoolLike,
  { consumer, partition, schema, topic, to }: StoredPartitions & { readonly to: number },
): Promise<readonly ResetPartition[]> {
  const quoted = quotedSchema(schema)
  const mine = `o.consumer_id = (select id from ${quoted}.consumers where name = $1::text) and o.topic = $2::text and ($3::text is null or o.partition = $3::text::integer)`
  return inTransaction(pool, async (client) => {
    const values = [consumer, topic, partition === undefined ? null : String(partition)]
    const locked = await client.query(
      `select json_build_object('partition', o.partition, 'nextOffset', o.next_offset, 'open', o.open_offsets)::text as answer,
         o.topic_id || '/' || o.partition || '/' || o.generation || '/' as key
       from ${quoted}.kafka_offsets o where ${mine} order by o.partition_id for update`,
      values,
    )
    // Records that are waiting would never run: after the reset they come again as other events.
    for (const { key } of locked.rows) {
      await client.query(
        `with gone as (
           delete from ${quoted}.processed_events p using ${quoted}.failed_events f
           where f.event_id = p.event_id and p.state in ('r', 'w') and not f.parked and starts_with(f.key, $1::text)
           returning p.event_id
         )
         delete from ${quoted}.failed_events where event_id in (select event_id from gone)`,
        [String(key)],
      )
    }
    await client.query(
      `update ${quoted}.kafka_offsets o set next_offset = $4::text::bigint, open_offsets = '{}', epoch = o.epoch + 1,
         generation = o.generation + 1, cluster_id = '', topic_id = '', group_id = '' where ${mine}`,
      [...values, String(to)],
    )
    await client.query(
      `insert into ${quoted}.audit (who, action, target, consumer_id, why)
       select session_user, 'reset-offsets', o.partition_id, o.consumer_id, $4::text from ${quoted}.kafka_offsets o where ${mine}`,
      [...values, `to ${to}`],
    )
    const before = locked.rows.map(({ answer }) => JSON.parse(String(answer)) as ResetPartition)
    return before.toSorted((one, two) => one.partition - two.partition)
  })
}
