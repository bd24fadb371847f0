import { database } from '@onceward/testing'
import { newEvent, Steps } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { all, passTime } from './fixtures/inbox.ts'
import {
  countOf,
  type LeastPrivilege,
  leastPrivilege,
  twoConsumers,
} from './fixtures/least-privilege.ts'
import {
  deadLetters,
  forgetHistory,
  pauseConsumer,
  removeConsumer,
  resumeConsumer,
} from './index.ts'

let admin: pg.Pool
let roles: LeastPrivilege

beforeAll(async () => {
  const { url } = await database()
  admin = new pg.Pool({ connectionString: url, max: 10 })
  roles = await leastPrivilege(admin, url)
})
afterAll(async () => {
  await roles[Symbol.asyncDispose]()
  await admin.end()
})

const scenario = () => twoConsumers(admin, roles)

describe('the role of operators', () => {
  const operated = (by?: string) => deadLetters(roles.operator, { schema: 'least', by })

  it('lists, shows, replays and discards what all consumers left, in its own name', async () => {
    const { mailing, theirs } = await scenario()
    const [again] = [await new Steps(mailing, async () => undefined).buried()]
    expect(await all(operated().list())).toHaveLength(3)
    expect(await operated().show(theirs.dead)).toMatchObject({ consumer: 'mailing' })
    expect((await operated().replay(theirs.dead)).done).toEqual([theirs.dead])
    expect((await operated().replay(theirs.refused)).done).toEqual([theirs.refused])
    expect((await operated().discard(again.id, 'spam')).done).toEqual([again.id])
    const { rows } = await roles.operator.query('select who, action from least.audit order by id')
    const who = roles.logins.operator
    expect(rows).toEqual([
      { who, action: 'replay' },
      { who, action: 'replay' },
      { who, action: 'discard' },
    ])
    expect(await mailing.due(10)).toHaveLength(2)
    expect(await operated().replay(theirs.done)).toMatchObject({ untouched: [{ why: 'done' }] })
  })

  it('discards refused messages', async () => {
    const { theirs } = await scenario()
    expect((await operated().discard(theirs.refused, 'spam')).done).toEqual([theirs.refused])
  })

  it('sends back to the queue, also again after an interruption, and gives that up', async () => {
    const { mailing, theirs } = await scenario()
    let isLost = true
    const sender = {
      owns: () => true,
      ready: async () => undefined,
      send: async () => {
        if (isLost) throw new Error('connection lost')
      },
    }
    const again = await new Steps(mailing, async () => undefined).buried()
    for (const id of [theirs.dead, again.id]) {
      expect((await operated().requeue(id, sender)).untouched).toMatchObject([
        { why: 'unconfirmed' },
      ])
    }
    isLost = false
    expect((await operated().requeue(theirs.dead, sender)).done).toEqual([theirs.dead])
    expect((await operated().discard(again.id, 'spam')).done).toEqual([again.id])
    expect((await operated().requeue(theirs.refused, sender)).done).toEqual([theirs.refused])
    const states = 'select state::text from least.processed_events where event_id = any($1)'
    const { rows } = await admin.query(`${states} order by state`, [[theirs.dead, again.id]])
    expect(rows).toEqual([{ state: 'w' }, { state: 'x' }])
  })

  it('cannot act in the name of another', async () => {
    const { theirs } = await scenario()
    await expect(operated('alice').replay(theirs.dead)).rejects.toThrow(/row-level security/)
    expect(await operated().show(theirs.dead)).toMatchObject({ id: theirs.dead })
  })

  it('pauses, resumes and removes a consumer', async () => {
    await scenario()
    const least = { schema: 'least' }
    await pauseConsumer(roles.operator, 'mailing', least)
    expect(await resumeConsumer(roles.operator, 'mailing', least)).toBe(true)
    const remove = () => removeConsumer(roles.operator, 'mailing', { ...least, leaveEvents: true })
    expect(await remove()).toMatchObject({ kind: 'running' })
    await passTime(admin, 'least', 91_000)
    expect(await remove()).toEqual({ kind: 'removed' })
  })

  it('says that the clock is right', async () => {
    await scenario()
    await roles.operator.query('select least.trust_clock()')
    const { rows } = await admin.query('select clock from least.settings')
    expect(rows).toEqual([{ clock: 1 }])
  })

  it('lets the history be forgotten', async () => {
    const { billing } = await scenario()
    const before = await billing.identity()
    await forgetHistory(roles.operator, { schema: 'least' })
    expect(await billing.identity()).not.toBe(before)
  })

  it.each([
    [
      'claim that an event is done',
      "update least.processed_events set state = 'd' where state = 'x'",
    ],
    [
      'insert an event',
      'insert into least.processed_events (event_id, fingerprint, consumer_id) values (gen_random_uuid(), 0, 1)',
    ],
    ['delete an event', 'delete from least.processed_events'],
    [
      'change the payload that an event stands for',
      'update least.processed_events set fingerprint = 0',
    ],
    ['delete a dead letter of an event', 'delete from least.failed_events'],
    [
      'write the audit in another’s name',
      "insert into least.audit (who, action, target, consumer_id) values ('alice', 'replay', gen_random_uuid(), 1)",
    ],
    [
      'write the audit at another time',
      "insert into least.audit (at, action, target, consumer_id) values ('2000-01-01', 'replay', gen_random_uuid(), 1)",
    ],
    ['change the audit', "update least.audit set who = 'alice'"],
    ['delete the audit', 'delete from least.audit'],
    ['read the secret', 'table least.settings'],
    ['change the epoch by hand', 'update least.settings set epoch = gen_random_uuid()'],
    ['change windows', 'update least.consumers set dedup_window_ms = 0'],
    ['delete a consumer', 'delete from least.consumers'],
    ['end leases', 'delete from least.leases'],
    ['change results', "update least.event_results set result = '{}'"],
    ['create tables', 'create table least.mine (x int)'],
  ])('cannot %s', async (_what, text) => {
    const { theirs } = await scenario()
    await operated().discard(theirs.refused, 'spam')
    await expect(roles.operator.query(text)).rejects.toThrow(/permission denied|row-level security/)
  })

  it('changes no row of an event that is done, runs or waits', async () => {
    const { mailing } = await scenario()
    await new Steps(mailing, async () => undefined).suspect(newEvent())
    const change = "update least.processed_events set state = 'w'"
    expect(await countOf(roles.operator, `${change} where state <> 'x'`)).toBe(0)
    const { token, ...waiting } = await new Steps(mailing, async () => undefined).suspect(
      newEvent(),
    )
    await mailing.fail([{ ...waiting, token, error: 'x', delayMs: 0 }])
    const stop = "update least.processed_events set state = 'x' where state = 'w'"
    expect(await countOf(roles.operator, stop)).toBe(0)
    expect(
      await countOf(
        roles.operator,
        'update least.failed_events set attempt = 0 where reason is null',
      ),
    ).toBe(0)
  })
})
