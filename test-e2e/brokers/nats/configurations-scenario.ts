import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { consumeNats, type NatsDeadLetter } from '@onceward/nats'
import { nats } from '@onceward/testing'
import type { Pool } from 'pg'
import { freshName } from '../../fuzz/configurations/postgres-scenario.ts'
import type { Order, Scenario } from '../../fuzz/configurations/scenario.ts'
import type { Servers } from '../../fuzz/configurations/servers.ts'
import { SharedDatabase } from '../../fuzz/configurations/shared-database.ts'
import type { NatsSettings } from './configurations-grid.ts'
import { connectionTo } from './queue.ts'

/** Tokens of the subjects: lanes of orders that have none of their own. */
const LANES = 4

export async function openNats(servers: Servers, settings: NatsSettings): Promise<Scenario> {
  const shared = await SharedDatabase.of(servers)
  const server = await servers.of('nats', () => nats())
  const connection = await connectionTo(server.connection.url)
  const consumer = freshName()
  await create(connection, consumer, settings)
  const client = jetstream(connection)
  const isRecorded = settings.deadLetter === 'table'
  let read = 0
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
      consumeNats(connection, guard, {
        ...{ stream: consumer, consumer, drainMs: 5_000 },
        ...{ deadLetter: placeOf(consumer, settings), orderingSubject: settings.orderingSubject },
      }),
    send: async (orders) => {
      for (const [at, order] of orders.entries()) {
        await client.publish(`${consumer}.${at % LANES}`, JSON.stringify(order))
      }
    },
    depth: async () => {
      const manager = await jetstreamManager(connection)
      const info = await manager.consumers.info(consumer, consumer)
      return info.num_pending + info.num_ack_pending
    },
    published: async () => {
      if (isRecorded) return readTable(shared.pool, consumer)
      const letters = await readLetters(connection, `${consumer}-dead`, read)
      read += letters.length
      return letters
    },
    close: async () => {
      const { streams } = await jetstreamManager(connection)
      for (const name of [consumer, `${consumer}-dead`]) {
        await streams.delete(name).catch(() => undefined)
      }
      await connection.close()
    },
  }
}

async function create(
  connection: NatsConnection,
  name: string,
  { retention, storage, stream, consumer, isMissing }: NatsSettings,
): Promise<void> {
  const manager = await jetstreamManager(connection)
  const kept = { retention, storage } as const
  const dead = { name: `${name}-dead`, subjects: [`dead-${name}.>`] }
  await manager.streams.add(dead)
  if (isMissing === 'stream') return
  await manager.streams.add({ name, subjects: [`${name}.>`], ...kept, ...stream })
  if (isMissing === 'consumer') return
  const durable = { durable_name: name, ack_policy: 'explicit', deliver_policy: 'all' } as const
  await manager.consumers.add(name, { ...durable, ...consumer })
}

function placeOf(name: string, { deadLetter }: NatsSettings): NatsDeadLetter | undefined {
  switch (deadLetter) {
    case 'table':
      return undefined
    case 'stream':
      return { stream: `${name}-dead` }
    case 'subject':
      return { subject: `dead-${name}.orders` }
    case 'itself':
      return { subject: `${name}.dead` }
    case 'nowhere':
      return { subject: `nowhere-${name}` }
  }
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

async function readLetters(
  connection: NatsConnection,
  stream: string,
  read: number,
): Promise<readonly string[]> {
  const { streams } = await jetstreamManager(connection)
  const { state } = await streams.info(stream)
  const found: string[] = []
  for (let sequence = read + 1; sequence <= state.last_seq; sequence += 1) {
    const letter = await streams.getMessage(stream, { seq: sequence })
    found.push(String(letter?.json<Order>().id))
  }
  return found
}
