import { consumeStream } from '@onceward/redis-streams'
import { redis } from '@onceward/testing'
import { Redis } from 'ioredis'
import type { Pool } from 'pg'
import { freshName } from '../../fuzz/configurations/postgres-scenario.ts'
import type { Order, Scenario } from '../../fuzz/configurations/scenario.ts'
import type { Servers } from '../../fuzz/configurations/servers.ts'
import { SharedDatabase } from '../../fuzz/configurations/shared-database.ts'
import type { StreamsSettings } from './configurations-grid.ts'

export async function openStreams(servers: Servers, settings: StreamsSettings): Promise<Scenario> {
  const shared = await SharedDatabase.of(servers)
  const kind = `streams ${JSON.stringify(settings.server)}`
  const server = await servers.of(kind, () => redis({ settings: settings.server }))
  const client = new Redis(server.connection.url)
  client.on('error', () => undefined)
  const consumer = freshName()
  const streams = Array.from({ length: settings.streams }, (_, at) => `${consumer}-${at}`)
  const [first = ''] = streams
  if (settings.isOtherType) await client.set(first, 'text')
  if (settings.hasOtherGroup) await client.xgroup('CREATE', first, 'other', '0', 'MKSTREAM')
  const dead = settings.deadLetter === 'itself' ? first : `${consumer}.dead`
  const { claimIdleMs, holdMs, keepEntries } = settings
  return {
    consumer,
    operator: shared.pool,
    schema: 'onceward',
    createGuard: (handle, logger) =>
      shared.createGuard({
        ...{ consumer, transaction: settings.transaction, handle, logger },
        dedupWindowMs: undefined,
      }),
    consume: (guard) =>
      consumeStream(client, guard, {
        ...{ stream: streams, claimIdleMs, holdMs, keepEntries, drainMs: 5_000 },
        deadLetter: settings.deadLetter === 'table' ? undefined : { stream: dead },
      }),
    send: async (orders) => {
      for (const [at, order] of orders.entries()) {
        const stream = streams[at % streams.length] ?? first
        await client.xadd(stream, '*', ...fieldsOf(order, settings))
      }
    },
    depth: () => depthOf(client, streams, consumer, settings),
    published: () =>
      settings.deadLetter === 'table' ? readTable(shared.pool, consumer) : readAll(client, dead),
    close: async () => {
      await client.del(dead, ...streams)
      client.disconnect()
    },
  }
}

function fieldsOf(order: Order, { form }: StreamsSettings): readonly string[] {
  // With a single field, that would be the body.
  if (form === 'fields') return ['kind', 'order', ...Object.entries(order).flat()]
  return [form === 'single' ? 'order' : 'payload', JSON.stringify(order)]
}

/** What is kept is not unsettled: with `keepEntries` what is pending, parked or not delivered counts. */
async function depthOf(
  client: Redis,
  streams: readonly string[],
  group: string,
  { keepEntries }: StreamsSettings,
): Promise<number> {
  let depth = 0
  for (const stream of streams) {
    if (!keepEntries) {
      depth += await client.xlen(stream)
      continue
    }
    const groups = (await client.xinfo('GROUPS', stream)) as unknown[][]
    const own = groups.find(([, name]) => name === group) ?? []
    const [pending, delivered] = [
      own[own.indexOf('pending') + 1],
      own[own.indexOf('last-delivered-id') + 1],
    ]
    const waiting = await client.xrange(stream, `(${String(delivered)}`, '+')
    const parked = await client.zcard(`{${stream}}:onceward:parked:${group}`)
    depth += Number(pending) + waiting.length + parked
  }
  return depth
}

/** Ids of the dead events that nobody has replayed yet. */
async function readTable(pool: Pool, consumer: string): Promise<readonly string[]> {
  const { rows } = await pool.query<{ key: string }>(
    `select f.key from onceward.failed_events f join onceward.processed_events p using (event_id)
    join onceward.consumers c on c.id = p.consumer_id where c.name = $1 and p.state = 'x'`,
    [consumer],
  )
  return rows.map(({ key }) => key)
}

/** Deletes what it has read. */
async function readAll(client: Redis, dead: string): Promise<readonly string[]> {
  const letters = await client.xrange(dead, '-', '+')
  const found: string[] = []
  for (const [id, flat] of letters) {
    found.push(idIn(flat))
    await client.xdel(dead, id)
  }
  return found
}

/** Whatever form the order has. */
function idIn(flat: readonly string[]): string {
  const at = (name: string): string | undefined => {
    const index = flat.findIndex((each, place) => place % 2 === 0 && each === name)
    return index === -1 ? undefined : flat[index + 1]
  }
  const whole = at('payload') ?? at('order')
  return whole === undefined ? (at('id') ?? '') : String(JSON.parse(whole).id)
}
