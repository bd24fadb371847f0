import { randomUUID } from 'node:crypto'
import { createGuard, type Delivery, type HandlerContext } from '@onceward/core'
import { until } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { type TestInbox, testInbox } from '../fixtures/inbox.ts'
import { pauseConsumer, resumeConsumer } from './pauses.ts'

let inbox: TestInbox

beforeAll(async () => {
  inbox = await testInbox({ consumer: 'billing' })
})
afterAll(() => inbox[Symbol.asyncDispose]())

const read = () => inbox.session.pauses?.read()
const audit = async (): Promise<readonly unknown[]> => {
  const { rows } = await inbox.pool.query(
    `select a.who, a.action, c.name, a.why, a.target from onceward.audit a
     join onceward.consumers c on c.id = a.consumer_id order by a.id`,
  )
  return rows
}

it('an operator pauses and resumes a consumer, every guard reads it, and both are audited', async () => {
  expect(await read()).toBeUndefined()
  const until = new Date(Date.now() + 60_000)
  await pauseConsumer(inbox.pool, 'billing', { by: 'ana', why: 'a\0b', until })
  const other = await inbox.open()
  for (const session of [inbox.session, other]) {
    const pause = await session.pauses?.read()
    expect(pause).toMatchObject({ source: 'operator', by: 'ana', why: 'a\u2400b' })
    expect(pause?.forMs).toBeGreaterThan(50_000)
    expect(pause?.forMs).toBeLessThanOrEqual(60_000)
  }
  expect(await (await inbox.open({ consumer: 'mails' })).pauses?.read()).toBeUndefined()
  // Without an end, in place of the first one.
  await pauseConsumer(inbox.pool, 'billing', { by: 'bob' })
  expect(await read()).toEqual({
    ...{ source: 'operator', by: 'bob' },
    ...{ why: undefined, forMs: undefined },
  })
  expect(await resumeConsumer(inbox.pool, 'billing', { by: 'ana', why: 'over' })).toBe(true)
  expect(await resumeConsumer(inbox.pool, 'billing')).toBe(false)
  expect(await read()).toBeUndefined()
  const target = null
  expect(await audit()).toEqual([
    { who: 'ana', action: 'pause', name: 'billing', why: 'a\u2400b', target },
    { who: 'bob', action: 'pause', name: 'billing', why: null, target },
    { who: 'ana', action: 'resume', name: 'billing', why: 'over', target },
  ])
})

it('a pause ends at its time, by the clock of the database', async () => {
  await pauseConsumer(inbox.pool, 'billing', { until: new Date(Date.now() + 60_000) })
  await inbox.pass(61_000)
  expect(await read()).toBeUndefined()
  expect(await resumeConsumer(inbox.pool, 'billing')).toBe(false)
})

it('a guard pauses its consumer, but never shortens the pause that is in force', async () => {
  const { pauses } = inbox.session
  await pauses?.write({ source: 'handler', forMs: 60_000, why: '429' })
  await pauses?.write({ source: 'handler', forMs: 1_000 })
  expect(await read()).toMatchObject({ source: 'handler', why: '429' })
  await pauses?.write({ source: 'handler', forMs: 600_000 })
  expect((await read())?.forMs).toBeGreaterThan(60_000)
  await pauses?.write({ source: 'guard', why: 'all refused' })
  expect(await read()).toMatchObject({ source: 'guard', forMs: undefined })
  await pauses?.write({ source: 'handler', forMs: 600_000 })
  expect(await read()).toMatchObject({ source: 'guard' })
  await pauses?.end()
  expect(await read()).toBeUndefined()
})

const delivery = (key: string): Delivery => ({
  body: new TextEncoder().encode('{}'),
  headers: { 'idempotency-key': key },
  source: { broker: 'sqs', queue: 'orders', position: key },
})

// Red when a guard does not write the pause of its handler, or reads its row at the start alone.
it('a handler that calls pauseFor pauses the other guards of its consumer too, until the pause is over', async () => {
  let isLimited = false
  const handler = vi.fn((_event: unknown, { pauseFor }: HandlerContext<unknown>) => {
    if (isLimited) pauseFor(60_000)
  })
  const options = { consumer: 'limited', inbox: inbox.inbox, logger: silent, concurrency: 1 }
  const one = createGuard(options, handler)
  const other = createGuard(options, handler)
  const next = () => delivery(randomUUID())
  for (const guard of [one, other]) expect((await guard.process(next())).kind).toBe('ack')
  isLimited = true
  expect(await one.process(next())).toMatchObject({ cause: 'deferred-by-handler' })
  isLimited = false
  await until(async () => Reflect.get(await other.process(next()), 'cause') === 'paused')
  const runs = handler.mock.calls.length
  for (const guard of [one, other]) {
    expect(await guard.process(next())).toMatchObject({ cause: 'paused' })
  }
  expect(handler).toHaveBeenCalledTimes(runs)
  await inbox.pass(61_000)
  for (const guard of [one, other]) {
    await until(async () => (await guard.process(next())).kind === 'ack')
    await guard.close()
  }
})

it('a consumer that never registered, and a time that is none, are refused', async () => {
  for (const change of [pauseConsumer, resumeConsumer]) {
    await expect(change(inbox.pool, 'biling')).rejects.toThrow(/No consumer `?biling/)
  }
  const until = new Date(Number.NaN)
  await expect(pauseConsumer(inbox.pool, 'billing', { until })).rejects.toThrow(/valid Date/)
  await expect(pauseConsumer(inbox.pool, 'billing', { til: 1 } as never)).rejects.toThrow(/til/)
})
