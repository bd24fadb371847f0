import type { EventId } from '@onceward/core/ports'
import { until } from '@onceward/testing'
import { newDelivery, newEvent, RIGHT_MS } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { PoolLike } from '../client.ts'
import { all, lockWaiters, newEvents, type TestInbox, testInbox } from '../fixtures/inbox.ts'
import { deadLetters } from '../index.ts'

let inbox: TestInbox

beforeEach(async () => {
  inbox = await testInbox()
})
afterEach(() => inbox[Symbol.asyncDispose]())

/** Ids of buried events and of a refused message, sorted. */
async function makeDeadLetters(count: number): Promise<readonly string[]> {
  const events = newEvents(count - 1)
  await inbox.session.bury(
    events.map((event) => ({ event, attempt: 1, error: 'x', reason: 'fatal' }) as const),
  )
  const refusal = { delivery: newDelivery(), reason: 'invalid-payload', error: 'no JSON' } as const
  const refused = await inbox.session.refuse([refusal])
  return [...events, ...refused].map(({ id }) => id as string).toSorted()
}

const listed = async (): Promise<readonly string[]> =>
  (await all(inbox.deadLetters.list())).map(({ id }) => id)

async function audited(action: string): Promise<readonly string[]> {
  const text = 'select target::text from onceward.audit where action = $1 order by 1'
  return (await inbox.pool.query(text, [action])).rows.map(({ target }) => target)
}

// Red with a transaction for each: that takes 1 750 statements.
it.each(['replay', 'discard'] as const)(
  '%s changes many dead letters in groups, with few statements',
  async (verb) => {
    const ids = await makeDeadLetters(250)
    let statements = 0
    const pool: PoolLike = {
      connect: async () => {
        const client = await inbox.pool.connect()
        return {
          release: (error) => client.release(error),
          query: (text, values) => {
            statements += 1
            return client.query(text, values as unknown[])
          },
        }
      },
    }
    const { done, untouched } = await deadLetters(pool)[verb]({ all: true }, 'a test')
    expect([done.toSorted(), untouched]).toEqual([ids, []])
    expect(statements).toBeLessThan(25)
    expect(await listed()).toEqual([])
    expect(await audited(verb)).toEqual(ids)
  },
)

it('replays of several operators at once replay each dead letter once', async () => {
  const ids = await makeDeadLetters(150)
  const replays = Array.from({ length: 4 }, () => inbox.deadLetters.replay({ all: true }))
  const done = (await Promise.all(replays)).flatMap((report) => report.done)
  expect(done.toSorted()).toEqual(ids)
  expect(await audited('replay')).toEqual(ids)
})

// Red when a group waits for its rows.
it('a dead letter whose row is locked keeps no other waiting, and follows', async () => {
  const ids = await makeDeadLetters(20)
  const [locked] = await listed()
  const other = await inbox.pool.connect()
  await other.query('begin')
  const lock = 'select from onceward.processed_events where event_id = $1 for update'
  await other.query(lock, [locked])
  const replaying = inbox.deadLetters.replay({ all: true })
  await until(async () => (await lockWaiters(inbox.pool)) > 0)
  expect(await listed()).toEqual([locked])
  await other.query('rollback')
  other.release()
  expect((await replaying).done.toSorted()).toEqual(ids)
})

// Red when a group takes what is being published: its publisher would mark the replayed event.
it.each(['replay', 'discard'] as const)(
  '%s leaves what is being published, and changes the others',
  async (verb) => {
    const ids = await makeDeadLetters(5)
    const [first = ''] = await listed()
    await inbox.session.takePublishing({ kind: 'event', id: first as EventId }, RIGHT_MS)
    const { done, untouched } = await inbox.deadLetters[verb]({ all: true }, 'a test')
    expect(done.toSorted()).toEqual(ids.filter((id) => id !== first))
    expect(untouched).toEqual([{ id: first, why: 'held' }])
  },
)

it('a dead letter that was too large to store is left as it is, beside others', async () => {
  const ids = await makeDeadLetters(5)
  const [first = ''] = await listed()
  const omitted = "update onceward.failed_events set body = '', body_bytes = 9 where event_id = $1"
  await inbox.pool.query(omitted, [first])
  const { done, untouched } = await inbox.deadLetters.replay({ all: true })
  expect(done.toSorted()).toEqual(ids.filter((id) => id !== first))
  expect(untouched).toEqual([{ id: first, why: 'not-stored' }])
})

it('a dead letter that is discarded loses its large body, and no other one does', async () => {
  const delivery = newDelivery({ body: new Uint8Array(5_000_000) })
  const [kept, given] = [newEvent({ delivery }), newEvent({ delivery })]
  for (const event of [kept, given]) await inbox.steps.buried(event)
  await inbox.deadLetters.discard(given.id, 'a test')
  const parts = 'select distinct event_id::text as id from onceward.failed_event_parts'
  expect((await inbox.pool.query(parts)).rows).toEqual([{ id: kept.id }])
})

// Red when a group takes every refused message: the run that was asked for would not come.
it.each(['replay', 'discard'] as const)(
  '%s leaves a refused message alone that waits for its replay',
  async (verb) => {
    const [id = ''] = await makeDeadLetters(1)
    await inbox.deadLetters.replay(id)
    const untouched = [{ id, why: 'unknown' }]
    expect(await inbox.deadLetters[verb](id, 'a test')).toEqual({ done: [], untouched })
    expect(await inbox.session.due(10)).toMatchObject([{ ref: { id }, what: 'run' }])
  },
)

it('a filter takes what failed at the instant from which it looks, and not at that until which', async () => {
  const ids = await makeDeadLetters(2)
  const at = new Date('2026-01-02T03:04:05.678Z')
  for (const table of ['failed_events', 'refused_messages'])
    await inbox.pool.query(`update onceward.${table} set last_failed_at = $1`, [at])
  expect((await inbox.deadLetters.replay({ until: at })).done).toEqual([])
  expect((await inbox.deadLetters.replay({ since: at })).done.toSorted()).toEqual(ids)
})

it('a change leaves its connection without a bound for the wait for a row', async () => {
  const pool = new pg.Pool({ connectionString: inbox.url, max: 1 })
  const ids = await makeDeadLetters(2)
  expect((await deadLetters(pool).replay({ all: true })).done.toSorted()).toEqual(ids)
  const { rows } = await pool.query("select current_setting('lock_timeout') as bound")
  await pool.end()
  expect(rows).toEqual([{ bound: '0' }])
})

it('who publishes too late does not mark what was discarded meanwhile', async () => {
  const { pass, session, steps } = inbox
  const ref = await steps.buried()
  const right = await session.takePublishing(ref, RIGHT_MS)
  await pass(RIGHT_MS)
  expect((await inbox.deadLetters.discard(ref.id, 'a test')).done).toEqual([ref.id])
  if (right.kind !== 'taken') throw new Error(`expected the right, got ${right.kind}`)
  expect(await session.endPublishing(ref, right.token, 'published')).toBe('lost')
})
