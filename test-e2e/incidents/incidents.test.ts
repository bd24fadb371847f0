// @module-tag nightly

import { CreateQueueCommand, DeleteQueueCommand, SQSClient } from '@aws-sdk/client-sqs'
import {
  type PostgresConnection,
  type PostgresServer,
  postgres,
  proxy,
  redis,
  type Server,
  type SqsConnection,
  skipped,
  sqs,
  type TcpProxy,
  until,
} from '@onceward/testing'
import { hotStandby } from '@onceward/testing/adapter'
import pg from 'pg'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { browser } from '../../packages/onceward/src/fixtures/browser.ts'
import { copyProduct } from '../behaviour/put-back/product-copy.ts'
import { freshName } from '../brokers/queue-under-test.ts'
import { fromSource } from './commands.ts'
import { Operator } from './operator.ts'
import { type Servers, Shop } from './shop.ts'

// The doctor would find fault with the settings of the other tests.
const settings = { fsync: 'on', full_page_writes: 'on' }
const NEEDED = ['postgres', 'sqs', 'redis', 'prometheus', 'chromium'] as const

let database: PostgresServer
let broker: Server<SqsConnection>
let chrome: Browser
let queues: SQSClient

async function createQueue(name = freshName()): Promise<string> {
  const { QueueUrl = '' } = await queues.send(new CreateQueueCommand({ QueueName: name }))
  // A client that is configured by its environment alone takes the host of the queue's url.
  return new URL(new URL(QueueUrl).pathname, broker.connection.endpoint).href
}

async function openShop(more: Partial<Servers> = {}): Promise<Shop> {
  return Shop.open({
    ...{ broker: broker.connection, queueUrl: await createQueue() },
    databaseUrl: more.databaseUrl ?? (await database.createDatabase()),
    ...more,
  })
}

const orders = (count: number, order: object, name = 'order'): readonly object[] =>
  Array.from({ length: count }, (_, n) => ({ orderId: `${name}-${n + 1}`, ...order }))

async function deadLetters({ pool }: Shop, where = 'true'): Promise<number> {
  const { rows } = await pool.query(
    `select count(*)::int as count from onceward.failed_events where reason is not null and ${where}`,
  )
  return rows[0]?.count
}

/** The address of a database that another server can take over. */
async function openAddress(
  url: string,
): Promise<{ readonly address: TcpProxy; readonly url: string }> {
  const moved = new URL(url)
  const address = await proxy({ host: moved.hostname, port: Number(moved.port) })
  moved.host = `${address.host}:${address.port}`
  return { address, url: moved.href }
}

async function promote({ url }: PostgresConnection): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query('select pg_promote()')
  await client.end()
}

/** One migration more, with which this release cannot work. */
const NEXT_RELEASE = [
  {
    file: 'packages/postgres/src/inbox/schema-version.ts',
    find: 'SCHEMA_VERSION = 4',
    replace: 'SCHEMA_VERSION = 5',
  },
  {
    file: 'packages/postgres/src/sql/index.ts',
    find: 'sql: outbox },',
    replace: `sql: outbox }, { version: 5, name: '000005-next.sql', sql: 'alter table :"schema".processed_events add column note text' },`,
  },
]

describe.skipIf(NEEDED.some(skipped))(
  'the incidents of docs/operations.md',
  { concurrent: true, timeout: 300_000 },
  () => {
    beforeAll(async () => {
      ;[database, broker, chrome] = await Promise.all([
        postgres({ native: true, settings }),
        sqs({ native: true }),
        browser(),
      ])
      queues = new SQSClient(broker.connection)
    })
    afterAll(() => Promise.all([database?.stop(), broker?.stop(), chrome?.close()]))

    test('a poison storm is seen, understood, mended and replayed with the commands of the document', async () => {
      await using shop = await openShop()
      await using alice = await Operator.reads('A poison storm', shop, chrome)
      await shop.deploy()
      await shop.work()
      await alice.watches()
      const [first = {}, ...others] = orders(9, { shop: 7, cents: 2_000 })
      // The oldest of the dead letters is always the same.
      await shop.send(first)
      await until(async () => (await deadLetters(shop)) === 1, { what: 'the first dead letter' })
      await shop.send(...others, ...orders(3, { shop: 7 }, 'draft'))
      await shop.work()
      await alice.sees()
      await alice.types()
      await shop.pool.query('insert into accounts values (7, 0)')
      await alice.types()
      await until(async () => (await shop.charges('cents = 2000')) === 9, {
        what: 'the effects of the replayed orders',
        deadlineMs: 60_000,
      })
      await alice.types()
      await alice.isDone()
      expect(await shop.charges('cents = 2000')).toBe(9)
    })

    test('a dead letter whose place is gone is published when the place is back', async () => {
      const name = freshName()
      const deadLetterQueueUrl = await createQueue(name)
      await using shop = await openShop({ deadLetterQueueUrl })
      await using alice = await Operator.reads('The dead-letter place is down', shop, chrome)
      await shop.deploy()
      await queues.send(new DeleteQueueCommand({ QueueUrl: deadLetterQueueUrl }))
      await shop.send({ orderId: 'order-1', shop: 7, cents: 2_000 })
      await shop.work()
      await alice.sees()
      await alice.types()
      await createQueue(name)
      await until(async () => (await deadLetters(shop, 'published')) === 1, {
        what: 'the publication',
        deadlineMs: 60_000,
      })
      await alice.types()
      await shop.pool.query('insert into accounts values (7, 0)')
      await alice.types()
      await alice.isDone()
    })

    test('a Redis that is killed and comes back empty costs no effect and no second one', async () => {
      await using cache = await redis({ native: true, settings: { appendonly: 'no' } })
      await using shop = await openShop({ redisUrl: cache.connection.url })
      await using alice = await Operator.reads('Redis is lost', shop, chrome)
      await shop.deploy()
      await shop.work()
      await cache.kill()
      await shop.work()
      await alice.sees()
      await alice.types()
      await cache.restart()
      // A copy of an event that Redis no longer knows.
      await shop.send({ orderId: 'paid-1', shop: 1, cents: 100 })
      await shop.work()
      await alice.types()
      await alice.isDone()
      expect(await shop.charges("order_id = 'paid-1'")).toBe(1)
    })

    test('PostgreSQL fails over to a standby, and the consumer goes on by itself', async () => {
      await using primary = await postgres({ native: true, settings })
      const direct = await primary.createDatabase()
      await using standby = await hotStandby(primary, settings)
      const { address, url: databaseUrl } = await openAddress(direct)
      await using _closed = address
      await using shop = await openShop({ databaseUrl })
      await using alice = await Operator.reads('PostgreSQL fails over', shop, chrome)
      await shop.deploy()
      await shop.work()
      // The document shows tables that were swept.
      const isCopied = `select bool_and(replay_lsn = pg_current_wal_lsn()) and
        (select swept_at is not null from onceward.settings) as is from pg_stat_replication`
      await until(async () => (await shop.pool.query(isCopied)).rows[0]?.is, {
        what: 'the standby',
      })
      await alice.types()
      await primary.kill()
      await shop.sendGood()
      await alice.sees()
      await alice.types()
      await promote(standby.connection)
      address.target = standby.connection
      await shop.work()
      await alice.types()
      await alice.isDone()
    })

    test('pods that restart on tables of a newer release start again with the new release', async () => {
      await using next = await copyProduct()
      await next.putBack({ edits: NEXT_RELEASE })
      const release = fromSource(next.path)
      await using shop = await openShop()
      await using alice = await Operator.reads('The tables are newer than the pods', shop, chrome)
      await shop.deploy()
      await shop.work()
      await alice.watches()
      // The step of a deployment that went through, before the rollout of its pods stopped.
      await alice.types(release)
      const restarted = await shop.deploy()
      expect(restarted.isRunning).toBe(false)
      expect(restarted.log).toContain('ConfigurationError: The tables in schema')
      await alice.sees()
      await alice.types()
      await alice.types(release)
      await shop.deploy(release)
      await alice.isDone()
    })
  },
)
