import { systemRuntime } from '@onceward/core/ports'
import { counted, fresh, newEvent, registration } from '@onceward/testing/conformance'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestInbox, testInbox } from '../fixtures/inbox.ts'
import { forgetHistory, migrate } from '../index.ts'
import { pgInbox } from '../pg.ts'

let inbox: TestInbox

beforeAll(async () => {
  inbox = await testInbox({ dedupWindowMs: 60_000 })
})
afterAll(() => inbox[Symbol.asyncDispose]())

/** Whether the work changed the identity of the history. */
async function changes(work: () => Promise<unknown>): Promise<boolean> {
  const before = await inbox.session.identity()
  await work()
  return (await inbox.session.identity()) !== before
}
const sql = (text: string) => () => inbox.pool.query(text)

describe('the identity of the history changes', () => {
  it('whenever it is forgotten, and is never one of before', async () => {
    const seen = new Set([await inbox.session.identity()])
    for (const forget of [
      () => forgetHistory(inbox.pool),
      sql('select onceward.forget_history()'),
      () => forgetHistory(inbox.pool, { schema: 'onceward' }),
    ]) {
      await forget()
      seen.add(await inbox.session.identity())
    }
    expect(seen.size).toBe(4)
  })

  it.each([
    ['a done row is deleted', "delete from onceward.processed_events where state = 'd'"],
    [
      'a done row is made another',
      "update onceward.processed_events set state = 'w' where state = 'd'",
    ],
    ['the table is truncated', 'truncate onceward.processed_events'],
    [
      'the settings of a dump are restored',
      `create temp table dumped on commit drop as select * from onceward.settings;
       delete from onceward.settings;
       insert into onceward.settings select * from dumped`,
    ],
  ])('when %s', async (_when, text) => {
    await inbox.steps.commit(fresh(newEvent()))
    expect(await changes(sql(text))).toBe(true)
  })
})

describe('the identity of the history stays', () => {
  it.each([
    ['no row is deleted', 'delete from onceward.processed_events where false'],
    [
      'a row without an effect is deleted',
      "delete from onceward.processed_events where state = 'x'",
    ],
  ])('when %s', async (_when, text) => {
    const event = newEvent()
    await inbox.session.bury([{ event, attempt: 1, error: 'no', reason: 'fatal' }])
    expect(await changes(sql(text))).toBe(false)
  })

  it('while guards claim, release, bury, finish and register', async () => {
    const { session, steps, open } = inbox
    const work = async () => {
      await steps.commit(fresh(newEvent()))
      await steps.commit(counted(await steps.suspect(newEvent())))
      await session.release([{ ...(await steps.suspect(newEvent())), as: 'given-back' }])
      await steps.buried()
      await open()
    }
    expect(await changes(work)).toBe(false)
  })

  it('when the sweep deletes rows whose dedup window is over, and when it is migrated', async () => {
    await inbox.pool.query('truncate onceward.processed_events, onceward.failed_events cascade')
    const event = newEvent()
    await inbox.steps.commit(fresh(event))
    await inbox.pass(60_001)
    const swept = async () => {
      expect(await inbox.session.sweep()).toEqual({ deleted: 1, finished: true })
      await migrate(inbox.pool)
    }
    expect(await changes(swept)).toBe(false)
    // Only the transaction of the sweep is excepted, not the connection that it used.
    await inbox.steps.commit(fresh(event))
    expect(await changes(sql('delete from onceward.processed_events'))).toBe(true)
  })
})

it('there is no identity without settings, so nothing in Redis is believed', async () => {
  await migrate(inbox.pool, { schema: 'bare' })
  const session = await pgInbox(inbox.pool, { schema: 'bare' }).open(registration(systemRuntime))
  await inbox.pool.query('delete from bare.settings')
  expect(await session.identity()).toBe('')
})

it('forgetHistory refuses unknown options', async () => {
  await expect(forgetHistory(inbox.pool, { shema: 'x' } as never)).rejects.toThrow(
    'forgetHistory does not know "shema", did you mean "schema"?',
  )
})
