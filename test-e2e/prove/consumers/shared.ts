import type { Consumption, Guard, Resolver } from '@onceward/core'
import type { ProveEnv } from '@onceward/testing/prove'
import { Pool } from 'pg'
import { z } from 'zod'

/** What the consumers of this folder have in common: orders that are charged, in a table without a key. */
export interface Order {
  readonly id: string
  readonly cents: number
}

export const event = (n: number): Order => ({ id: `order-${n}`, cents: n })

const TABLES = `
  create table charges (order_id text not null, cents int not null);
  create table mails (order_id text not null)`

export async function setup({ databaseUrl }: ProveEnv): Promise<void> {
  await once(databaseUrl, TABLES)
}

export async function teardown({ databaseUrl }: ProveEnv): Promise<void> {
  await once(databaseUrl, 'drop table charges, mails')
}

export const countIn =
  (table: 'charges' | 'mails') =>
  async ({ databaseUrl }: ProveEnv): Promise<Record<string, number>> => {
    const rows = await once(databaseUrl, `select order_id, count(*)::int from ${table} group by 1`)
    return Object.fromEntries(rows.map(({ order_id, count }) => [order_id, count]))
  }

export const count: ReturnType<typeof countIn> = countIn('charges')

type Row = Readonly<Record<string, never>>

async function once(connectionString: string, text: string): Promise<readonly Row[]> {
  const pool = new Pool({ connectionString, max: 1 })
  try {
    return (await pool.query(text)).rows
  } finally {
    await pool.end()
  }
}

export const poolOf = ({ databaseUrl }: ProveEnv): Pool => {
  const pool = new Pool({ connectionString: databaseUrl })
  pool.on('error', () => undefined)
  return pool
}

const OrderPlaced = z.object({ id: z.string(), cents: z.int() })

interface SharedOptions {
  readonly consumer: string
  readonly leaseMs: number
  readonly deadlineMs: number
  readonly schema: typeof OrderPlaced
  readonly eventKey: Resolver<Order, string>
}

/** Small numbers, so that what a killed worker had in hand comes back soon. */
export const options = ({ leaseMs }: ProveEnv): SharedOptions => ({
  ...{ consumer: 'billing', leaseMs, deadlineMs: 4_000, schema: OrderPlaced },
  eventKey: ({ payload }) => payload.id,
})

/** The same guard on every broker. */
export async function consume(env: ProveEnv, guard: Guard): Promise<Consumption> {
  switch (env.broker) {
    case 'sqs': {
      const [{ SQSClient }, { consumeSqs }] = await Promise.all([
        import('@aws-sdk/client-sqs'),
        import('@onceward/sqs'),
      ])
      return consumeSqs(new SQSClient(), guard, { queueUrl: env.queueUrl, longPollMs: 1_000 })
    }
    case 'kafka': {
      const [{ Kafka, logLevel }, { consumeKafka }] = await Promise.all([
        import('kafkajs'),
        import('@onceward/kafka'),
      ])
      const kafka = new Kafka({ brokers: [...env.brokers], logLevel: logLevel.NOTHING })
      const consumer = { sessionTimeout: 4_000, heartbeatInterval: 500, maxWaitTimeInMs: 500 }
      const { groupId, topic } = env
      return consumeKafka(kafka, guard, { topics: [topic], groupId, fromBeginning: true, consumer })
    }
    case 'amqp': {
      const [{ connect }, { consumeAmqp }] = await Promise.all([
        import('amqplib'),
        import('@onceward/amqp'),
      ])
      const { brokerUrl, queue } = env
      const retryLevelsMs = [1_000, 5_000]
      return consumeAmqp(() => connect(brokerUrl), guard, { queue, retryLevelsMs })
    }
    case 'redis-streams': {
      const [{ Redis }, { consumeStream }] = await Promise.all([
        import('ioredis'),
        import('@onceward/redis-streams'),
      ])
      const { group, stream } = env
      return consumeStream(new Redis(env.brokerUrl), guard, { stream, group, claimIdleMs: 2_000 })
    }
    case 'nats': {
      const [{ connect }, { consumeNats }] = await Promise.all([
        import('@nats-io/transport-node'),
        import('@onceward/nats'),
      ])
      const { brokerUrl, consumer, stream } = env
      return consumeNats(await connect({ servers: brokerUrl }), guard, { stream, consumer })
    }
    default:
      return env satisfies never
  }
}
