import { assertRetryTopology, consumeAmqp, wrapAmqp } from '@onceward/amqp'
import { createBatchGuard, createGuard } from '@onceward/core'
import { memoryInbox, memoryLeases, toDelivery } from '@onceward/core/memory'
import { consumeKafka, wrapKafka } from '@onceward/kafka'
import { deadLetters, forgetHistory, migrate, postgresLeases } from '@onceward/postgres'
import { kyselyInbox } from '@onceward/postgres/kysely'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import { consumeSqs, wrapSqs } from '@onceward/sqs'
import { handMadeGuard } from '@onceward/testing/adapter'
import {
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
} from 'kysely'
import { describe, expect, test } from 'vitest'

const SECRETS = [
  ['a connection string of PostgreSQL', 'postgres://u:s3cret@h/db'],
  ['one of Redis', 'redis://:s3cret@h'],
  ['one of RabbitMQ', 'amqp://u:s3cret@h'],
  ['the URL of a queue with a password', 'https://u:s3cret@h/q'],
  ['pairs with a password', 'host=h password=s3cret'],
  // The example of the AWS documentation, with a part to look for.
  ['a secret access key of AWS', 'wJalrXUtnFEMI/K7MDENG/s3cretbPxRfiCYEXAK'],
] as const

const { guard } = handMadeGuard()
const pool = { connect: () => Promise.reject(new Error('no server')) }
const db = new Kysely<unknown>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (kysely) => new PostgresIntrospector(kysely),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
})
const queueUrl = 'https://sqs.test/1/orders'
const topics = ['orders']
const producer = { send: () => Promise.resolve([]) }
const told: string[] = []
const note = (...args: unknown[]) =>
  void told.push(
    JSON.stringify(args, (_, value: unknown) =>
      value instanceof Error ? `${value.message} ${String(value.cause)}` : value,
    ),
  )
const logger = { debug: note, info: note, warn: note, error: note }
const handler = () => undefined
// A broker that has nothing of what it is asked for.
const absent = () =>
  Promise.reject(
    Object.assign(new Error('Channel closed by server: 404 (NOT-FOUND)'), { code: 404 }),
  )
const amqpChannel = {
  checkQueue: absent,
  checkExchange: absent,
  assertQueue: absent,
  close: async () => undefined,
  on: () => undefined,
  once: () => undefined,
}
const amqp = {
  createChannel: async () => amqpChannel,
  createConfirmChannel: async () => amqpChannel,
  on: () => undefined,
  connection: { serverProperties: { version: '4.0.0' } },
}

type Take = (secret: string) => unknown
const inbox = memoryInbox()

/** Every option that takes a text, of every function. */
const OPTIONS: Readonly<Record<string, Take>> = {
  'createGuard consumer': (consumer) => createGuard({ consumer, inbox, logger }, handler),
  'createGuard onMissingKey': (onMissingKey) =>
    createGuard({ consumer: 'c', inbox, logger, onMissingKey } as never, handler),
  'createGuard onConflict': (onConflict) =>
    createGuard({ consumer: 'c', inbox, logger, onConflict } as never, handler),
  'createGuard fingerprint': (fingerprint) =>
    createGuard({ consumer: 'c', inbox, logger, fingerprint } as never, handler),
  'createGuard transaction': (transaction) =>
    createGuard({ consumer: 'c', inbox, logger, transaction } as never, handler),
  'createGuard inbox': (text) =>
    createGuard({ consumer: 'c', inbox: text, logger } as never, handler),
  'createGuard leases': (leases) =>
    createGuard({ consumer: 'c', inbox, leases, logger } as never, handler),
  'createGuard leaseMs': (leaseMs) =>
    createGuard({ consumer: 'c', inbox, leaseMs, logger } as never, handler),
  'createGuard retry': (retry) =>
    createGuard({ consumer: 'c', inbox, retry, logger } as never, handler),
  'createGuard onTakeover': (onTakeover) =>
    createGuard({ consumer: 'c', leases: memoryLeases(), onTakeover, logger } as never, handler),
  'createGuard onStoreDown': (onStoreDown) =>
    createGuard(
      { consumer: 'c', leases: memoryLeases(), onTakeover: 'retry', onStoreDown, logger } as never,
      handler,
    ),
  'createBatchGuard consumer': (consumer) => createBatchGuard({ consumer, inbox, logger }, handler),
  'pgInbox schema': (schema) => pgInbox(pool as never, { schema }),
  'pgInbox isolation': (isolation) => pgInbox(pool as never, { isolation } as never),
  'kyselyInbox schema': (schema) => kyselyInbox(db, { schema }),
  'kyselyInbox isolation': (isolation) => kyselyInbox(db, { isolation } as never),
  'postgresLeases schema': (schema) => postgresLeases(pool as never, { schema }),
  'migrate schema': (schema) => migrate(pool, { schema }),
  'migrate leases': (leases) => migrate(pool, { leases } as never),
  'forgetHistory schema': (schema) => forgetHistory(pool, { schema }),
  'deadLetters schema': (schema) => deadLetters(pool, { schema }),
  'deadLetters by': (by) =>
    deadLetters(pool, { by }).replay('6f1c1e0e-0000-4000-8000-000000000000'),
  'replay id': (id) => deadLetters(pool).replay(id),
  'replay consumer': (consumer) => deadLetters(pool).replay({ consumer }),
  'replay reason': (reason) => deadLetters(pool).replay({ reason } as never),
  'replay kind': (kind) => deadLetters(pool).replay({ kind } as never),
  'redisLeases namespace': (namespace) => redisLeases({} as never, { namespace }),
  'redisLeases budgetMs': (budgetMs) => redisLeases({} as never, { budgetMs } as never),
  'consumeSqs queueUrl': (text) => consumeSqs({} as never, guard, { queueUrl: text }),
  'consumeSqs deadLetter.queueUrl': (text) =>
    consumeSqs({} as never, guard, { queueUrl, deadLetter: { queueUrl: text } }),
  'consumeSqs both queues': (text) =>
    consumeSqs({} as never, guard, { queueUrl: text, deadLetter: { queueUrl: text } }),
  'consumeSqs deadLetter': (deadLetter) =>
    consumeSqs({} as never, guard, { queueUrl, deadLetter } as never),
  'consumeSqs drainMs': (drainMs) => consumeSqs({} as never, guard, { queueUrl, drainMs } as never),
  'wrapSqs queueUrl': (text) => wrapSqs({} as never, guard, { queueUrl: text }),
  'consumeKafka topics': (text) => consumeKafka({} as never, guard, { topics: [text] }),
  'consumeKafka topics without a list': (text) =>
    consumeKafka({} as never, guard, { topics: text } as never),
  'consumeKafka groupId': (groupId) => consumeKafka({} as never, guard, { topics, groupId }),
  'consumeKafka consumer.groupId': (groupId) =>
    consumeKafka({} as never, guard, { topics, groupId: 'g', consumer: { groupId } }),
  'consumeKafka deadLetter.topic': (topic) =>
    consumeKafka({} as never, guard, { topics, deadLetter: { producer, topic } as never }),
  'consumeKafka both topics': (topic) =>
    consumeKafka({} as never, guard, { topics: [topic], deadLetter: { producer, topic } as never }),
  'wrapKafka deadLetter.topic': (topic) =>
    wrapKafka({} as never, guard, { deadLetter: { producer, topic } as never }),
  'consumeAmqp queue': (queue) => consumeAmqp(amqp as never, guard, { queue }),
  'consumeAmqp deadLetter.queue': (queue) =>
    consumeAmqp(amqp as never, guard, { queue: 'q', deadLetter: { queue } }),
  'consumeAmqp both queues': (queue) =>
    consumeAmqp(amqp as never, guard, { queue, deadLetter: { queue } }),
  'consumeAmqp deadLetter.exchange': (exchange) =>
    consumeAmqp(amqp as never, guard, { queue: 'q', deadLetter: { exchange, routingKey: 'k' } }),
  'consumeAmqp deadLetter.routingKey': (routingKey) =>
    consumeAmqp(amqp as never, guard, { queue: 'q', deadLetter: { exchange: 'e', routingKey } }),
  'consumeAmqp connection': (text) => consumeAmqp(text as never, guard, { queue: 'q' }),
  'wrapAmqp queue': (queue) => wrapAmqp(amqpChannel as never, guard, { queue }),
  'assertRetryTopology queue': (queue) => assertRetryTopology(amqp as never, queue, [1_000]),
}

/** What the program says about it: the error, its causes, and the log. */
async function answerTo(take: Take, secret: string): Promise<string> {
  told.length = 0
  try {
    const made = await take(secret)
    const isGuard = typeof made === 'object' && made !== null && 'process' in made
    if (isGuard)
      await (made as { process(delivery: object): Promise<unknown> }).process(toDelivery({}))
  } catch (error) {
    for (let each: unknown = error; each instanceof Error; each = each.cause)
      told.push(String(each), String(each.stack))
  }
  return told.join('\n')
}

describe.each(SECRETS)('%s is not shown', (_what, secret) => {
  test.each(Object.entries(OPTIONS))('when it is given as %s', async (_name, take) => {
    expect(await answerTo(take, secret)).not.toContain('s3cret')
  })
})

describe('a connection string is refused, so that no table, topic or queue gets its name', () => {
  const names = Object.keys(OPTIONS).filter(
    (name) =>
      /schema|namespace|consumer$|topic|groupId|[qQ]ueue|exchange|routingKey/.test(name) &&
      !/^replay/.test(name),
  )
  test.each(names)('as %s', async (name) => {
    const take = OPTIONS[name]
    if (take === undefined) throw new Error('no such option')
    expect(await answerTo(take, 'amqp://u:s3cret@h')).toMatch(/ConfigurationError: [\s\S]*Expected/)
  })
})
