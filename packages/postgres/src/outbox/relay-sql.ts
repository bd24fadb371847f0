import { lockGroup } from '../transaction/outbox-sql.ts'

/** Messages of one look: one call of Kafka. */
export const LOOK_ROWS = 500
/** Messages of one plan. */
export const PLAN_ROWS = 20_000
/** Of one bucket. */
export const PLAN_BUCKET_ROWS = 2_000
/** Messages that are due, of one look. */
const DUE_ROWS = 128
/** Payloads of one look, bytes: a message is read even if it alone has more. */
const LOOK_BYTES = 16 * 1024 * 1024
/** Messages that are freed at a time. */
export const FREE_ROWS = 5_000
/** Keys and messages that wait are counted up to this number. */
const MOST_WAITING = 1_000

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
  /** Without them the plan of `plan` would follow from statistics that are old, or mislead. */
  readonly planByIndex: string
  /** `$3`: rows of each bucket, `$4`: behind these positions. What may leave, in order, and what must wait behind a message of its key. */
  readonly plan: string
  /** `$1`: positions. Those that still must wait behind a message of their key are set aside. */
  readonly hold: string
  /** Frees some of what is behind no message that waits. */
  readonly free: string
  /** `$3`: positions, `$4`: messages of each bucket that are due. */
  readonly read: string
  /**
   * `$1`: positions and ids, as JSON: after a restore another message may have the position. `$2`: the positions, which are
   * found together.
   */
  readonly remove: string
  /**
   * `$1`: positions, ids, milliseconds until the next attempts, errors and whether no attempt is counted, as JSON, `$2`: most attempts, `$3`: milliseconds since
   * the first, `$4`: the positions.
   */
  readonly fail: string
  readonly waiting: string
}

/** Messages of each bucket that are due, of one look. */
export const dueRows = (buckets: number): number => Math.ceil(DUE_ROWS / buckets)

export function relayStatements(schema: string): RelayStatements {
  const table = `${schema}.outbox_messages`
  // The first message of each key that waits: one step of the index for each key, however many are behind it.
  const first = (after: string): string =>
    `(select m.key, m.state, m.bucket, m.error from ${table} m where m.state in ('w', 'h') and m.destination = $1 and m.key > ${after}
      order by m.destination, m.key, m.position limit 1)`
  const keys = `heads as (select * from ${first("''::bytea")} first union all
    select next.* from heads cross join lateral ${first('heads.key')} next)`
  const isMine = 'destination = $1 and bucket = any ($2::int2[])'
  // While a message waits, `failed_at` is the time of its first failure since it could be opened.
  const isFirst = '(attempt = 0 or failed_at is null)'
  const isSpent = `(not failed."isHeld" and (attempt + 1 >= $2::int4 or (not ${isFirst} and extract(epoch from now() - failed_at) * 1000 >= $3::float8)))`
  const isBehind = (of: string): string =>
    `(select w.state from ${table} w where w.state in ('w', 'h') and ${between('w', 'destination, key, position', [`${of}.destination`, `${of}.key`], '0', `${of}.position`)}
      order by w.destination, w.key, w.position limit 1) is not null`
  const columns =
    "position::text, message_id as id, encode(key, 'hex') as key, encode(envelope, 'hex') as envelope, encode(payload, 'hex') as payload, state::text, attempt"
  return {
    ...leaseStatements(schema),
    planByIndex:
      "select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)",
    plan: `select q.position::text, q.bucket::int4, hashtextextended(encode(q.key, 'hex'), 0)::text as lane, ${isBehind('q')} as held
      from unnest($2::int2[], $4::int8[]) mine(bucket, after) cross join lateral (
        select q.position, q.bucket, q.destination, q.key from ${table} q
        where q.state = 'q' and ${between('q', 'bucket, destination, position', ['mine.bucket', '$1'], 'mine.after', LAST)}
        order by q.bucket, q.destination, q.position limit $3::int8) q`,
    hold: `update ${table} q set state = 'h' where position = any ($1::int8[]) and state = 'q' and ${isBehind('q')}`,
    free: `with recursive ${keys} update ${table} set state = 'q' where position = any (array(
      select h.position from heads cross join lateral (
        select m.position from ${table} m where m.state in ('w', 'h') and ${between('m', 'destination, key, position', ['$1', 'heads.key'], '0', LAST)}
        order by m.destination, m.key, m.position limit ${FREE_ROWS}) h
      where heads.state = 'h' and heads.bucket = any ($2::int2[]) limit ${FREE_ROWS})) and state = 'h'`,
    read: `select ${columns} from (
      select found.*, sum(octet_length(payload)) over (order by position) - octet_length(payload) as before from (
        select * from ${table} where position = any ($3::int8[]) and state = 'q'
        union all
        select due.* from unnest($2::int2[]) mine(bucket) cross join lateral (
          select d.* from ${table} d
          where d.state in ('d', 'w') and (d.bucket, d.destination, d.due_at) > (mine.bucket, $1, '-infinity'::timestamptz)
            and (d.bucket, d.destination, d.due_at) <= (mine.bucket, $1, now())
          order by d.bucket, d.destination, d.due_at limit $4::int8) due
      ) found) looked where before < ${LOOK_BYTES} order by looked.position`,
    remove: `delete from ${table} m using json_to_recordset($1::json) sent(position int8, id text)
      where m.position = any ($2::int8[]) and m.position = sent.position and m.message_id = sent.id`,
    fail: `update ${table} m set attempt = attempt + (not failed."isHeld")::int4, error = failed.error, due_at = now() + failed."delayMs" * interval '1 millisecond',
      failed_at = case when failed."isHeld" then null when ${isSpent} or ${isFirst} then now() else failed_at end,
      state = case when ${isSpent} then 'x'::"char" else 'w'::"char" end
      from json_to_recordset($1::json) failed(position int8, id text, "delayMs" float8, "isHeld" bool, error text)
      where m.position = any ($4::int8[]) and m.position = failed.position and m.message_id = failed.id
      returning m.position::text, m.state::text`,
    waiting: `with recursive ${keys} select count(*)::int4 as keys, (min(error))::text as error from (
      (select error from heads where state = 'w' and bucket = any ($2::int2[]) limit ${MOST_WAITING})
      union all
      (select error from ${table} where state in ('w', 'h') and key is null and ${isMine} limit ${MOST_WAITING})) waiting`,
  }
}

type LeaseStatements = Pick<
  RelayStatements,
  'lockLeases' | 'readLeases' | 'takeLeases' | 'giveLeases'
>

function leaseStatements(schema: string): LeaseStatements {
  const leases = `${schema}.outbox_leases`
  const mine = 'json_to_recordset($2::json) mine(destination text, bucket int2)'
  return {
    lockLeases: `select pg_advisory_xact_lock(${lockGroup(schema)}, -1)::text`,
    readLeases: `select destination, bucket::int4, relay::text from ${leases}
      where until > clock_timestamp() and destination in (select json_array_elements_text($1::json))`,
    takeLeases: `insert into ${leases} (destination, bucket, relay, until)
      select mine.destination, mine.bucket, $1::uuid, clock_timestamp() + $3::float8 * interval '1 millisecond' from ${mine}
      on conflict (destination, bucket) do update set relay = excluded.relay, until = excluded.until`,
    giveLeases: `delete from ${leases} l where until < clock_timestamp() - interval '1 hour'
      or (relay = $1::uuid and not exists (select from ${mine} where mine.destination = l.destination and mine.bucket = l.bucket))`,
  }
}

const LAST = '9223372036854775807'

/**
 * A condition, with an order by the same columns, that one index alone fulfils, whatever the statistics say: where columns
 * are equal to a value, the planner may also take the order of the primary key, and pass millions of rows of others.
 */
const between = (
  of: string,
  columns: string,
  [first, second]: readonly [first: string, second: string],
  above: string,
  below: string,
): string => {
  const row = `(${columns.replaceAll(/\w+/g, (name) => `${of}.${name}`)})`
  return `${row} > (${first}, ${second}, ${above}::int8) and ${row} < (${first}, ${second}, ${below}::int8)`
}
