import { fresh, newEvent, Steps } from '@onceward/testing/conformance'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type TestInbox, testInbox } from '../fixtures/inbox.ts'
import { removeConsumer } from './remove-consumer.ts'

let inbox: TestInbox

beforeAll(async () => {
  inbox = await testInbox({ consumer: 'billing' })
})
afterAll(() => inbox[Symbol.asyncDispose]())

const HOUR_MS = 3_600_000
const known = async (): Promise<readonly string[]> => {
  const silences = (await inbox.session.figures?.())?.workerSilencesMs
  return Object.keys(silences ?? {}).toSorted()
}
const audit = async (name: string): Promise<readonly unknown[]> => {
  const { rows } = await inbox.pool.query(
    `select a.who, a.action, a.why, a.target from onceward.audit a
     join onceward.consumers c on c.id = a.consumer_id where c.name = $1 order by a.id`,
    [name],
  )
  return rows
}
const stepsOf = (session: TestInbox['session']) => new Steps(session, inbox.pass)
const stateOf = (id: string) =>
  inbox.pool.query(
    'select state::text, consumer_id from onceward.processed_events where event_id = $1',
    [id],
  )

it('a consumer whose last worker has ended is removed, with who and why, and its metric ends', async () => {
  const old = await inbox.open({ consumer: 'old' })
  await old.heartbeat?.()
  expect(await removeConsumer(inbox.pool, 'old')).toMatchObject({
    ...{ kind: 'running', workers: [expect.stringMatching(/:\d+$/)] },
  })
  await old.close?.()
  expect(await known()).toEqual(['old'])
  expect(await removeConsumer(inbox.pool, 'old', { by: 'ana', why: 'a\0b' })).toEqual({
    kind: 'removed',
  })
  expect(await known()).toEqual([])
  expect(await audit('old')).toEqual([
    { who: 'ana', action: 'remove', why: 'a\u2400b', target: null },
  ])
})

// Red when a removal forgets the events, or the name comes back with another id.
it('a removed consumer that starts again is shown again, and copies of its events are duplicates', async () => {
  const window = { dedupWindowMs: 24 * HOUR_MS }
  const old = await inbox.open({ consumer: 'again', ...window })
  await old.heartbeat?.()
  const event = newEvent()
  await stepsOf(old).commit(fresh(event))
  await old.close?.()
  expect(await removeConsumer(inbox.pool, 'again')).toEqual({ kind: 'removed' })
  const before = (await stateOf(event.id)).rows
  // With a shorter window, which does not take the place of the longer one within an hour.
  const next = await inbox.open({ consumer: 'again', dedupWindowMs: HOUR_MS })
  expect(await known()).toEqual(['again'])
  expect(await next.classify([event])).toMatchObject([{ kind: 'done' }])
  expect((await stateOf(event.id)).rows).toEqual(before)
  expect(await next.isProven?.()).toBe(true)
})

// Red when an operator's removal counts as his word that the first messages of the consumer are right.
it('a consumer without events that was removed is still without proof', async () => {
  const old = await inbox.open({ consumer: 'unproven' })
  await old.heartbeat?.()
  await old.close?.()
  await removeConsumer(inbox.pool, 'unproven')
  expect(await (await inbox.open({ consumer: 'unproven' })).isProven?.()).toBe(false)
})

it('a worker that was silent while its consumer was removed brings it back with its next heartbeat', async () => {
  const frozen = await inbox.open({ consumer: 'frozen' })
  await frozen.heartbeat?.()
  await inbox.pass(91_000)
  expect(await removeConsumer(inbox.pool, 'frozen')).toEqual({ kind: 'removed' })
  expect(await known()).not.toContain('frozen')
  await frozen.heartbeat?.()
  expect(await known()).toContain('frozen')
})

it('a guard without heartbeats counts as running until it has not registered for two hours', async () => {
  await inbox.open({ consumer: 'lambda' })
  await inbox.pass(2 * HOUR_MS - 60_000)
  expect(await removeConsumer(inbox.pool, 'lambda')).toEqual({ kind: 'running', workers: [] })
  await inbox.pass(61_000)
  expect(await removeConsumer(inbox.pool, 'lambda')).toEqual({ kind: 'removed' })
})

it('a consumer whose events wait or are dead is removed only on demand, and they stay', async () => {
  const old = await inbox.open({ consumer: 'unfinished' })
  const steps = stepsOf(old)
  const dead = await steps.buried(newEvent())
  const waiting = newEvent()
  await old.fail([{ ...(await steps.suspect(waiting)), error: 'x', delayMs: 0 }])
  await old.heartbeat?.()
  await old.close?.()
  const refused = { kind: 'unfinished', waiting: 1, deadLetters: 1 }
  expect(await removeConsumer(inbox.pool, 'unfinished')).toEqual(refused)
  expect(await known()).toContain('unfinished')
  expect(await removeConsumer(inbox.pool, 'unfinished', { leaveEvents: true })).toEqual({
    kind: 'removed',
  })
  expect((await stateOf(dead.id)).rows).toMatchObject([{ state: 'x' }])
  expect((await stateOf(waiting.id)).rows).toMatchObject([{ state: 'w' }])
})

it('a consumer that never registered, and an unknown option, are refused', async () => {
  await expect(removeConsumer(inbox.pool, 'biling')).rejects.toThrow(/No consumer `?biling/)
  await expect(removeConsumer(inbox.pool, 'billing', { force: true } as never)).rejects.toThrow(
    /force/,
  )
})
