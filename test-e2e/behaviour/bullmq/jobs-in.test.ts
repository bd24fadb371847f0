import { jobsIn } from '@onceward/bullmq'
import { createGuard } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { database } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import { createPostgresBackend, type Queue, runMigrations, withBackend } from 'bullmq'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'

let pool: pg.Pool
/** BullMQ's own connections. */
let queue: Queue

beforeAll(async () => {
  const { url } = await database()
  pool = new pg.Pool({ connectionString: url, max: 10 })
  await migrate(pool)
  const client = await pool.connect()
  await runMigrations(client)
  client.release()
  await pool.query('create table users (email text)')
  const own = new pg.Pool({ connectionString: url, max: 3, options: '-c search_path=bullmq' })
  queue = new (withBackend(createPostgresBackend).Queue)('mails', {
    connection: own as never,
  }) as unknown as Queue
})
afterAll(async () => {
  await queue.close()
  await pool.end()
})
beforeEach(async () => {
  await queue.pause()
  await queue.obliterate({ force: true })
  await queue.resume()
  await pool.query('delete from users')
})

const users = async (): Promise<number> =>
  (await pool.query('select count(*)::int as n from users')).rows[0].n

type Handle = (tx: pg.PoolClient, attempt: number) => Promise<unknown>

let keys = 0
/** Runs a handler for one event, as often as it asks for. */
async function handled(handle: Handle): Promise<void> {
  const key = `event-${++keys}`
  const guard = createGuard(
    {
      ...{ consumer: 'signups', inbox: pgInbox(pool), logger: silent, retry: { baseMs: 0 } },
      eventKey: () => key,
    },
    async ({ attempt }, { tx }) => {
      await tx.query("insert into users values ('a@b.example')")
      await handle(tx, attempt)
    },
  )
  let settlement = await guard.process(toDelivery({}))
  while (settlement.kind === 'defer') settlement = await guard.process(toDelivery({}))
  expect(settlement.kind).toBe('ack')
  await guard.close()
}

test('a job is added with the commit of its handler, and not by a run that failed', async () => {
  const jobs: number[] = []
  await handled(async (tx, attempt) => {
    await jobsIn(tx).queue('mails').add('welcome', { attempt })
    jobs.push(await queue.count())
    if (attempt === 1) throw new Error('not yet')
  })
  // Nobody sees it before the commit.
  expect(jobs).toEqual([0, 0])
  expect(await users()).toBe(1)
  const [job, ...others] = await queue.getWaiting()
  expect(others).toEqual([])
  expect(job).toMatchObject({ name: 'welcome', data: { attempt: 2 } })
})

test('the search path of the handler is its own again, also behind a savepoint whose job was refused', async () => {
  const paths: string[] = []
  const path = async (tx: pg.PoolClient): Promise<void> => {
    paths.push((await tx.query('show search_path')).rows[0].search_path)
  }
  await handled(async (tx) => {
    await tx.query('set local search_path = "$user", public')
    const mails = jobsIn(tx).queue('mails')
    await Promise.all([1, 2, 3].map((n) => mails.add('welcome', { n })))
    await path(tx)
    await tx.query('savepoint one')
    await expect(
      mails.add('welcome', {}, { parent: { id: 'nobody', queue: 'bull:nowhere' } }),
    ).rejects.toThrow()
    await tx.query('rollback to savepoint one')
    await path(tx)
    await mails.add('later', {}, { delay: 60_000 })
  })
  expect(paths).toEqual(['"$user", public', '"$user", public'])
  expect([await queue.getWaitingCount(), await queue.getDelayedCount()]).toEqual([3, 1])
})

test('handlers that add to one queue do not wait for one another', async () => {
  // BullMQ makes the numbers of a queue with its first job.
  await queue.add('first', {})
  const both = Promise.withResolvers<void>()
  let added = 0
  const meet: Handle = async (tx) => {
    await jobsIn(tx).queue('mails').add('welcome', {})
    added += 1
    if (added === 2) both.resolve()
    await both.promise
  }
  const first = handled(meet)
  await Promise.all([first, handled(meet)])
  expect(await queue.getWaitingCount()).toBe(3)
})

test('another `tx` is refused by name', () => {
  expect(() => jobsIn({} as pg.PoolClient)).toThrow('whose inbox is pgInbox')
  expect(() => jobsIn(pool, { schema: 'a"b' })).toThrow('`schema` of jobsIn')
})
