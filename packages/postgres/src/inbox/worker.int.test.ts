import { afterAll, beforeAll, expect, it } from 'vitest'
import { type TestInbox, testInbox } from '../fixtures/inbox.ts'

let inbox: TestInbox

beforeAll(async () => {
  inbox = await testInbox()
})
afterAll(() => inbox[Symbol.asyncDispose]())

const workers = async (): Promise<readonly object[]> => {
  const { rows } = await inbox.pool.query(
    `select c.name as consumer, w.name, extract(epoch from w.seen_at - w.started_at)::int as "livedS",
       extract(epoch from now() - w.seen_at)::int as "silentS"
     from onceward.workers w join onceward.consumers c on c.id = w.consumer_id order by w.started_at`,
  )
  return rows
}
const name = expect.stringMatching(new RegExp(`^.+:${process.pid}$`))

it('a worker has a row from its first heartbeat until it is closed, and the consumer keeps the time', async () => {
  const session = await inbox.open({ consumer: 'beats' })
  expect(await workers()).toEqual([])
  await session.heartbeat?.()
  await inbox.pass(30_000)
  await session.heartbeat?.()
  expect(await workers()).toEqual([{ consumer: 'beats', name, livedS: 30, silentS: 0 }])
  await session.close?.()
  expect(await workers()).toEqual([])
  // Red when a heartbeat that was on its way brings the row back.
  await session.heartbeat?.()
  expect(await workers()).toEqual([])
  await inbox.pass(60_000)
  const silences = (await inbox.session.figures?.())?.workerSilencesMs
  expect(silences?.['beats']).toBeGreaterThanOrEqual(60_000)
  expect(silences?.['beats']).toBeLessThan(90_000)
})

it('a killed worker counts as silent, and the next heartbeat of its consumer deletes its row after ten minutes', async () => {
  const killed = await inbox.open({ consumer: 'crashes' })
  const [next, other] = [
    await inbox.open({ consumer: 'crashes' }),
    await inbox.open({ consumer: 'other' }),
  ]
  await killed.heartbeat?.()
  await other.heartbeat?.()
  await inbox.pass(599_000)
  await next.heartbeat?.()
  expect(await workers()).toHaveLength(3)
  await inbox.pass(2_000)
  await next.heartbeat?.()
  expect(await workers()).toMatchObject([
    { consumer: 'other', silentS: 601 },
    { consumer: 'crashes', silentS: 0 },
  ])
  // A process that was stopped and goes on is a worker again.
  await killed.heartbeat?.()
  expect(await workers()).toHaveLength(3)
})

it('a session that never sent a heartbeat, or whose database is gone, closes without a word', async () => {
  const own = await testInbox()
  const session = await own.open({ consumer: 'gone' })
  const silent = await own.open({ consumer: 'silent' })
  await session.heartbeat?.()
  await own.pool.query('drop table onceward.workers')
  await expect(session.heartbeat?.()).rejects.toThrow(/workers/)
  await expect(session.close?.()).resolves.toBeUndefined()
  await expect(silent.close?.()).resolves.toBeUndefined()
  await own[Symbol.asyncDispose]()
})
