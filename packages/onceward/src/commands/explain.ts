import { eventIdOf } from '@onceward/core'
import { unescapeText } from '@onceward/postgres/operator'
import type { InspectedEvent } from '@onceward/redis/operator'
import type { Command } from 'commander'
import type { Database } from '../data/database.ts'
import { type EventFacts, type EventName, readFacts } from '../data/event-facts.ts'
import { isId } from '../data/letters.ts'
import { openRedis, readIdentity, readRedis } from '../data/redis.ts'
import { storyOf } from '../data/story.ts'
import { readTablesOf } from '../data/tables.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { Failure, usage } from '../failure.ts'
import { storyText } from '../render/story.ts'
import { command, type End, type Work, withDatabase } from './command.ts'

interface ExplainFlags {
  readonly consumer?: string
  readonly tenant?: string
  readonly id?: string
  readonly redis?: string
  readonly redisNamespace?: string
}

export function explainCommand(end: End): Command {
  const made = command({
    name: 'explain',
    summary: 'Tell the story of one event, and what its next delivery would be told',
    details:
      'Reads the row of the event, its attempts and errors, the lease, dead letters with its key, and what operators did. Changes nothing.',
    rights: 'onceward_operator. With --redis: read access to the keys of the guards.',
    examples: [
      'explain order-4711 --consumer billing',
      'explain order-4711 --consumer billing --tenant acme --redis redis://localhost:6379',
      'explain --id 0c5d9f52-6f3c-9b3a-2f86-8f5b7a5e6f10   # eventId of a log line',
    ],
  })
  return made
    .argument('[key]', 'event key')
    .option('--consumer <name>', 'consumer of the guard')
    .option('--tenant <name>', 'tenant of the event')
    .option('--id <uuid>', 'event id, instead of key and consumer')
    .option('--redis <url>', 'also ask this Redis')
    .option('--redis-namespace <name>', '`namespace` of redisLeases')
    .action(async (key: string | undefined) => {
      demandName({ ...made.opts<ExplainFlags>(), key })
      end(await withDatabase<ExplainFlags>(made, (work) => run(work, key)))
    })
}

async function run(work: Work<ExplainFlags>, key: string | undefined): Promise<ExitCode> {
  const { database, output, options } = work
  const facts = await factsOf(database, { ...options, key })
  const story = storyOf(facts)
  const { facts: all, ...told } = story
  output.answer({ ...all, ...told }, () => storyText(story, output))
  return story.isKnown ? EXIT.ok : EXIT.no
}

export interface Asked extends ExplainFlags {
  readonly key?: string | undefined
}

/** Everything the stores know of the event that was asked for. */
export async function factsOf(database: Database, asked: Asked): Promise<EventFacts> {
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
export function demandName({ consumer, id, key }: Asked): void {
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
  { consumer, id, key, tenant }: Asked,
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
