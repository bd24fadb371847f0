import { type Database, ms, type Query } from './database.ts'

/** A partition of a consumer with `identity: 'offsets'`. */
export interface PartitionOffsets {
  readonly consumer: string
  readonly topic: string
  readonly partition: number
  /** Every record below it is done, except for the open ones. */
  readonly nextOffset: number
  /** Pairs: from the first offset to the one before the second. Their rows decide. */
  readonly open: readonly number[]
  readonly epoch: number
  readonly generation: number
  /** Empty after a reset, until a member claims the partition. */
  readonly cluster: string
  readonly topicId: string
  readonly group: string
  readonly claimedAtMs: number
}

/** By consumer, topic and partition. A name that is left out matches all. */
export function readOffsets(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
  {
    consumer,
    topic,
  }: { readonly consumer?: string | undefined; readonly topic?: string | undefined },
): Promise<readonly PartitionOffsets[]> {
  return query<PartitionOffsets>(
    `select c.name as consumer, o.topic, o.partition, o.next_offset::float8 as "nextOffset", to_json(o.open_offsets) as open,
       o.epoch::float8 as epoch, o.generation, o.cluster_id as cluster, o.topic_id as "topicId", o.group_id as "group",
       ${ms('o.claimed_at')} as "claimedAtMs"
     from ${quoted}.kafka_offsets o join ${quoted}.consumers c on c.id = o.consumer_id
     where ($1::text is null or c.name = $1::text) and ($2::text is null or o.topic = $2::text)
     order by 1, 2, 3`,
    [consumer ?? null, topic ?? null],
  )
}
