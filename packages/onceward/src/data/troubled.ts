import { isRemoved, unescapeText } from '@onceward/postgres/operator'
import { type Database, ms, type Query } from './database.ts'

/** An event that runs with no recorded result yet, or waits. */
export interface TroubledEvent {
  readonly id: string
  readonly consumer: string
  readonly key: string
  readonly tenant: string | null
  readonly state: 'r' | 'w'
  readonly attempt: number
  readonly parked: boolean
  /** Of the last run. */
  readonly countedAtMs: number | null
  readonly firstFailedAtMs: number
  readonly nextTryMs: number
  readonly error: string | null
}

/** Running and waiting events, with those that have been so for longest. */
export interface Troubled {
  readonly nowMs: number
  readonly inHand: readonly TroubledEvent[]
  readonly waiting: readonly TroubledEvent[]
  readonly parked: readonly TroubledEvent[]
}

export async function readTroubled(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
  { consumer, most }: { readonly consumer?: string | undefined; readonly most: number },
): Promise<Troubled> {
  const [now] = await query<{ readonly nowMs: number }>(`select ${ms('now()')} as "nowMs"`)
  const read = async (where: string, order: string): Promise<readonly TroubledEvent[]> => {
    const events = await query<TroubledEvent>(
      `select f.event_id::text as id, c.name as consumer, f.key, f.tenant, p.state::text as state, f.attempt, f.parked,
         ${ms('f.counted_at')} as "countedAtMs", ${ms('f.first_failed_at')} as "firstFailedAtMs",
         ${ms('f.next_try')} as "nextTryMs", split_part(f.error, e'\\n', 1) as error
       from ${quoted}.failed_events f
       join ${quoted}.processed_events p on p.event_id = f.event_id
       join ${quoted}.consumers c on c.id = f.consumer_id
       where ${where} and ($2::text is null or c.name = $2) and not ${isRemoved('c')}
       order by ${order}, f.event_id limit $1::bigint`,
      [most, consumer ?? null],
    )
    return events.map((event) => ({
      ...event,
      key: unescapeText(event.key),
      tenant: event.tenant === null ? null : unescapeText(event.tenant),
    }))
  }
  return {
    nowMs: now?.nowMs ?? Date.now(),
    inHand: await read("p.state = 'r'", 'f.counted_at'),
    waiting: await read("p.state = 'w' and not f.parked", 'f.next_try'),
    parked: await read("p.state = 'w' and f.parked", 'f.next_try'),
  }
}
