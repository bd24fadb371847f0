import { createGuard, FatalError, type Guard } from '@onceward/core'
import { portOf } from '@onceward/core/adapter'
import type { IdentifiedEvent } from '@onceward/core/ports'
import { until } from '@onceward/testing'
import { newDelivery, newEvent, silent } from '@onceward/testing/conformance'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { all, type TestInbox, testInbox } from '../fixtures/inbox.ts'
import { createStatements } from '../statements/index.ts'

let inbox: TestInbox
let guard: Guard
let isFixed: boolean

beforeEach(async () => {
  inbox = await testInbox()
  isFixed = false
  await inbox.pool.query('create table charges (order_id text)')
  guard = createGuard(
    {
      consumer: 'billing',
      inbox: inbox.inbox,
      eventKey: ({ headers }) => headers['order'],
      logger: silent,
      concurrency: 4,
    },
    async ({ payload }, { tx }) => {
      await tx.query('insert into charges values ($1)', [idOf(payload)])
      if (!isFixed) throw new FatalError('the account is closed')
    },
  )
})
afterEach(async () => {
  await guard.close()
  await inbox[Symbol.asyncDispose]()
})

const delivery = (id: string) =>
  newDelivery({ headers: { order: id }, body: new TextEncoder().encode(JSON.stringify({ id })) })

const idOf = (payload: unknown): string => (payload as { readonly id: string }).id

async function consumerId({ id }: IdentifiedEvent): Promise<string> {
  const { rows } = await inbox.pool.query(
    'select consumer_id from onceward.processed_events where event_id = $1',
    [id],
  )
  return String(rows[0].consumer_id)
}

async function charges(): Promise<readonly string[]> {
  const { rows } = await inbox.pool.query('select order_id from charges order by 1')
  return rows.map(({ order_id }) => order_id)
}

it("a replayed event is run by the guard's poller, without a delivery of the broker", async () => {
  expect(await guard.process(delivery('o-1'))).toMatchObject({
    kind: 'dead-letter',
    reason: 'fatal',
  })
  const [deadLetter] = await all(inbox.deadLetters.list())
  expect(deadLetter).toMatchObject({
    key: 'o-1',
    error: expect.stringMatching(/account is closed/),
  })
  isFixed = true
  await inbox.deadLetters.replay(deadLetter?.id ?? '')
  await until(async () => (await charges()).length > 0)
  expect(await charges()).toEqual(['o-1'])
  expect(await guard.process(delivery('o-1'))).toMatchObject({ kind: 'ack', by: 'duplicate' })
  expect(await all(inbox.deadLetters.list())).toEqual([])
})

it('a replay in a race with copies from the broker has one effect', async () => {
  const ids = ['o-1', 'o-2', 'o-3', 'o-4']
  for (const id of ids) await guard.process(delivery(id))
  isFixed = true
  let isOver = false
  const copies = async (id: string): Promise<void> => {
    while (!isOver) {
      await guard.process(delivery(id))
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  const running = ids.map(copies)
  expect((await inbox.deadLetters.replay({ consumer: 'billing' })).done).toHaveLength(ids.length)
  await until(async () => (await charges()).length >= ids.length)
  isOver = true
  await Promise.all(running)
  expect(await charges()).toEqual(ids)
})

it('a replayed event that dies again is published by the guard with the publisher of its source', async () => {
  const published: string[] = []
  const source = { broker: 'sqs', queue: 'orders' }
  const port = portOf(guard)
  const unregister = port.registerPublisher(source, async ({ key }) => {
    published.push(key ?? '')
  })
  await guard.process(delivery('o-1'))
  const [deadLetter] = await all(inbox.deadLetters.list())
  await inbox.deadLetters.replay(deadLetter?.id ?? '')
  await until(() => published.length > 0)
  unregister()
  const [again] = await all(inbox.deadLetters.list())
  expect(again).toMatchObject({ key: 'o-1', published: true, reason: 'fatal' })
  expect(published).toEqual(['o-1'])
  expect(await charges()).toEqual([])
})

it('a refused message gets its key anew when it is replayed', async () => {
  const nameless = { ...delivery('o-1'), headers: {} }
  expect(await guard.process(nameless)).toMatchObject({ reason: 'missing-event-key' })
  await guard.close()
  // The corrected code, which finds the key.
  guard = createGuard(
    {
      consumer: 'billing',
      inbox: inbox.inbox,
      eventKey: ({ payload }) => idOf(payload),
      logger: silent,
      concurrency: 4,
    },
    async ({ payload }, { tx }) => {
      await tx.query('insert into charges values ($1)', [idOf(payload)])
    },
  )
  await portOf(guard).open()
  await inbox.deadLetters.replay({ kind: 'refused' })
  await until(async () => (await charges()).length > 0)
  await until(async () => {
    const { rows } = await inbox.pool.query('select 1 from onceward.refused_messages')
    return rows.length === 0
  })
  expect(await charges()).toEqual(['o-1'])
})

// Red while a search took the locks of a count: the count skips locked rows, and the event waited for the next poll.
it('a search for parked events does not keep a run that has begun from its event', async () => {
  const { deadLetters, pool, session, steps } = inbox
  const event = newEvent()
  const { id } = await steps.buried(event)
  await deadLetters.replay(id)
  await steps.buried()
  await pool.query('update onceward.failed_events set parked = true')
  const searching = await pool.connect()
  try {
    await searching.query('begin')
    const { rows } = await searching.query(createStatements().dueEvents, [
      await consumerId(event),
      '10',
      '{}',
    ])
    expect(rows).toHaveLength(2)
    // The dead letter is offered to one search only.
    expect(await session.due(10)).toMatchObject([{ what: 'run', ref: { id } }])
    expect(await session.count([event], 'alone')).toMatchObject([{ kind: 'counted', attempt: 1 }])
  } finally {
    await searching.query('rollback')
    searching.release()
  }
})

// Red when one row that cannot be read ends the search: then nothing of the consumer is run or published any more.
it.each([1, 25])(
  '%d stored deliveries in a form that this version cannot read hold up no other',
  async (count) => {
    const newer = Array.from({ length: count }, (_, number) => `newer-${number + 1}`)
    for (const id of [...newer, 'o-1']) await guard.process(delivery(id))
    isFixed = true
    const change = "update onceward.failed_events set properties = '\\x02ff' where key <> 'o-1'"
    await inbox.pool.query(change)
    const { rows } = await inbox.pool.query(
      "select event_id from onceward.failed_events order by key = 'o-1'",
    )
    for (const { event_id } of rows) await inbox.deadLetters.replay(event_id)
    await until(async () => (await charges()).length > 0, { deadlineMs: 20_000 })
    expect(await charges()).toEqual(['o-1'])
    // They wait as they are for a version that can read them.
    const left = await inbox.pool.query('select key from onceward.failed_events where parked')
    expect(left.rows.map(({ key }) => key).sort()).toEqual(newer.sort())
  },
)
