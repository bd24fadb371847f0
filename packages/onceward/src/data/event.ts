import { eventIdOf } from '@onceward/core/ports'
import { unescapeText } from '@onceward/postgres/operator'
import type { InspectedEvent } from '@onceward/redis/operator'
import { Failure, usage } from '../failure.ts'
import type { Database } from './database.ts'
import { isId } from './dead-letters.ts'
import { type EventFacts, type EventName, readFacts } from './event-facts.ts'
import { openRedis, readIdentity, readRedis } from './redis.ts'
import { readTablesOf } from './tables.ts'

/** Which event, and which Redis is asked about it. */
export interface AskedEvent {
  readonly key?: string | undefined
  readonly consumer?: string | undefined
  readonly tenant?: string | undefined
  /** Instead of key and consumer. */
  readonly id?: string | undefined
  readonly redis?: string | undefined
  readonly redisNamespace?: string | undefined
}

/** Everything the stores know of the event that was asked for. */
export async function eventFactsOf(database: Database, asked: AskedEvent): Promise<EventFacts> {
  demandName(asked)
  const read = await readTablesOf(database, async (query) => {
    const event = await nameOf(query, database, asked)
    const identity = asked.redis === undefined ? undefined : await readIdentity(query, database)
    return { identity, facts: await readFacts(query, database, event) }
  })
  const { facts, identity } = read
  if (asked.redis === undefined) return { ...facts, redis: undefined }
  if (identity === undefined) {
    throw new Failure(
      'This login may not call pg_control_system(), which names the history that Redis remembers for. Leave out --redis, or `grant execute on function pg_control_system() to …`.',
    )
  }
  const redis = await askRedis(asked.redis, { facts, identity, namespace: asked.redisNamespace })
  return { ...facts, redis }
}

interface RedisQuestion {
  readonly facts: Omit<EventFacts, 'redis'>
  readonly identity: string
  readonly namespace: string | undefined
}

async function askRedis(
  url: string,
  { facts, identity, namespace }: RedisQuestion,
): Promise<InspectedEvent> {
  await using redis = await openRedis(url)
  const dedupWindowMs = facts.registration?.dedupWindowMs ?? DEFAULT_WINDOW_MS
  return await readRedis(redis, { id: facts.id, identity, dedupWindowMs }, namespace)
}

const DEFAULT_WINDOW_MS = 1_296_000_000

/** @throws {@link Failure} unless the event is named. */
export function demandName({ consumer, id, key, tenant }: AskedEvent): void {
  // In a script, the empty text is that of a variable that is not set. No event has an empty name.
  const named = { 'the key': key, '--consumer': consumer, '--tenant': tenant }
  const [empty] = Object.entries(named).find(([, text]) => text === '') ?? []
  if (empty !== undefined) throw usage(`Expected ${empty} not to be empty.`)
  if (id === undefined && (key === undefined || consumer === undefined)) {
    throw usage('Which event? Give its key and --consumer, or --id.')
  }
  if (id !== undefined && !isId(id)) throw usage('Expected --id to be an event id (a UUID).')
}

interface NameRow {
  readonly consumer: string
  readonly key: string | null
  readonly tenant: string | null
}

async function nameOf(
  query: Parameters<typeof readFacts>[0],
  { quoted }: Pick<Database, 'quoted'>,
  { consumer, id, key, tenant }: AskedEvent,
): Promise<EventName> {
  if (id === undefined) {
    const name = { consumer: consumer ?? '', key: key ?? '' }
    return { id: eventIdOf(name.consumer, tenant, name.key), ...name, tenant }
  }
  const [row] = await query<NameRow>(
    `select c.name as consumer, f.key, f.tenant from ${quoted}.consumers c
     join (
       select consumer_id, key, tenant from ${quoted}.failed_events where event_id = $1::uuid
       union all
       select consumer_id, null, null from ${quoted}.processed_events where event_id = $1::uuid
       union all
       select consumer_id, key, null from ${quoted}.refused_messages where refused_id = $1::uuid
     ) as f on f.consumer_id = c.id order by f.key nulls last limit 1`,
    [id],
  )
  const known = (text: string | null | undefined) => (text == null ? undefined : unescapeText(text))
  return {
    id: id.toLowerCase(),
    consumer: row?.consumer ?? consumer ?? '',
    key: known(row?.key) ?? key ?? '',
    tenant: known(row?.tenant) ?? tenant,
  }
}
