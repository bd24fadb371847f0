import { lockGroup } from '../transaction/outbox-sql.ts'

/** Messages of one look: one call of Kafka. */
const LOOK_ROWS = 500
/** Of one bucket, so that a full bucket leaves room for the others. */
const BUCKET_ROWS = 64
/** Payloads of one look, bytes: a message is read even if it alone has more. */
const LOOK_BYTES = 16 * 1024 * 1024

/** The statements of a relay; `$1` is the destination and `$2` the buckets, except where it is said. */
export interface RelayStatements {
  /** Relays decide about leases one after the other. */
  readonly lockLeases: string
  /** `$1`: destinations, as JSON. */
  readonly readLeases: string
  /** `$1`: the relay, `$2`: buckets of destinations, as JSON, `$3`: milliseconds. */
  readonly takeLeases: string
  /** `$1`: the relay, `$2`: what it keeps, as JSON. */
  readonly giveLeases: string
  /** Holds what is behind a message that waits, and frees what is behind none. */
  readonly hold: string
  readonly free: string
  /** `$3`: rows of each bucket. */
  readonly read: string
  /**
   * `$1`: positions and ids, as JSON: after a restore another message may have the position. `$2`: the positions, which are
   * found together.
   */
  readonly remove: string
  /** `$1`: position, `$2`: most attempts, `$3`: milliseconds until the next, `$4`: the error, `$5`: the id. */
  readonly fail: string
  readonly waiting: string
}

/**
 * Rows that a look reads of each bucket. All together twice what it takes, so that a few empty buckets do not make it small:
 * what is read and not taken is read again by the next look.
 */
export const bucketRows = (buckets: number): number =>
  Math.min(BUCKET_ROWS, Math.ceil((2 * LOOK_ROWS) / buckets))

export function relayStatements(schema: string): RelayStatements {
  const table = `${schema}.outbox_messages`
  const leases = `${schema}.outbox_leases`
  const mine = 'json_to_recordset($2::json) mine(destination text, bucket int2)'
  const isMine = 'destination = $1 and bucket = any ($2::int2[])'
  const columns =
    "position::text, message_id as id, encode(key, 'hex') as key, encode(envelope, 'hex') as envelope, encode(payload, 'hex') as payload, state::text, attempt"
  return {
    lockLeases: `select pg_advisory_xact_lock(${lockGroup(schema)}, -1)::text`,
    readLeases: `select destination, bucket::int4, relay::text from ${leases}
      where until > clock_timestamp() and destination in (select json_array_elements_text($1::json))`,
    takeLeases: `insert into ${leases} (destination, bucket, relay, until)
      select mine.destination, mine.bucket, $1::uuid, clock_timestamp() + $3::float8 * interval '1 millisecond' from ${mine}
      on conflict (destination, bucket) do update set relay = excluded.relay, until = excluded.until`,
    giveLeases: `delete from ${leases} l where until < clock_timestamp() - interval '1 hour'
      or (relay = $1::uuid and not exists (select from ${mine} where mine.destination = l.destination and mine.bucket = l.bucket))`,
    hold: `update ${table} m set state = 'h' from ${table} w
      where w.state = 'w' and w.destination = $1 and w.bucket = any ($2::int2[])
        and m.state = 'q' and m.bucket = w.bucket and m.destination = w.destination and m.key = w.key and m.position > w.position`,
    free: `update ${table} m set state = 'q' where m.state = 'h' and m.destination = $1 and m.bucket = any ($2::int2[])
      and not exists (select from ${table} w where w.state = 'w' and w.destination = m.destination and w.key = m.key and w.position < m.position)`,
    read: `select ${columns} from (
      select found.*, sum(octet_length(payload)) over (order by position) - octet_length(payload) as before from (
        select m.* from unnest($2::int2[]) mine(bucket) cross join lateral (
          select q.* from ${table} q where q.state = 'q' and q.bucket = mine.bucket and q.destination = $1
            and not exists (select from ${table} w where w.state = 'w' and w.destination = q.destination and w.key = q.key)
          order by q.position limit $3::int8) m
        union all
        (select * from ${table} where state in ('d', 'w') and due_at <= now() and ${isMine} order by due_at limit ${BUCKET_ROWS})
      ) found order by position limit ${LOOK_ROWS}) looked where before < ${LOOK_BYTES} order by looked.position`,
    remove: `with gone as (delete from ${table} m using json_to_recordset($1::json) sent(position int8, id text)
        where m.position = any ($2::int8[]) and m.position = sent.position and m.message_id = sent.id returning m.destination, m.key, m.state)
      update ${table} m set state = 'q' from gone
      where gone.state = 'w' and m.state = 'h' and m.destination = gone.destination and m.key = gone.key`,
    fail: `update ${table} set attempt = attempt + 1, failed_at = now(), error = $4, due_at = now() + $3::float8 * interval '1 millisecond',
      state = case when attempt + 1 >= $2::int4 then 'x'::"char" else 'w'::"char" end
      where position = $1::int8 and message_id = $5 returning state::text`,
    waiting: `select count(*)::int4 as keys, (min(error))::text as error from (
      select error from ${table} where state = 'w' and ${isMine} limit 1000) waiting`,
  }
}
