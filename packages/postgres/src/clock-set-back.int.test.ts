import { FatalError } from '@onceward/core'
import { newEvent } from '@onceward/testing/conformance'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type TestInbox, testInbox } from './fixtures/inbox.ts'

const DAY_MS = 86_400_000
const RIGHT_MS = 15_000

let inbox: TestInbox
beforeEach(async () => {
  inbox = await testInbox()
})
afterEach(() => inbox[Symbol.asyncDispose]())

/** The clock of the server was a day ahead until now. */
const setBack = (ms = DAY_MS): Promise<void> => inbox.pass(-ms)

it('an event whose process died is taken over at once, and its late owner claims nothing', async () => {
  const { session, steps } = inbox
  const first = await steps.suspect(newEvent())
  await setBack()
  const [second] = await session.count([first.event], 'alone')
  expect(second).toMatchObject({ kind: 'counted', attempt: 2 })
  const late = await session.begin({ claim: { kind: 'counted', events: [first] }, ...TIMES })
  expect(late.kind).toBe('none')
})

it('an owner that has just begun keeps its event if the clock is set back a little', async () => {
  const { event } = await inbox.steps.suspect(newEvent())
  await setBack(2_000)
  expect(await inbox.session.count([event], 'alone')).toEqual([{ kind: 'held' }])
})

it('an event that waits for its next attempt is due, and its back-off is right again afterwards', async () => {
  const { session, steps } = inbox
  const { event, token, attempt } = await steps.suspect(newEvent())
  await session.fail([{ event, token, attempt, error: 'busy', delayMs: 60_000 }])
  await setBack()
  expect(await steps.known(event)).toMatchObject({ kind: 'waiting', remainingMs: 0 })
  const [again] = await session.count([event], 'together')
  if (again?.kind !== 'counted') throw new Error(`expected a count, got ${again?.kind}`)
  await session.fail([{ event, ...again, error: 'busy', delayMs: 60_000 }])
  const known = await steps.known(event)
  expect(known.kind === 'waiting' && known.remainingMs).toBeGreaterThan(50_000)
})

it('a dead letter whose publisher died is published by another process', async () => {
  const { session } = inbox
  const event = newEvent()
  const error = new FatalError('closed')
  await session.bury([{ event, token: undefined, attempt: 1, reason: 'fatal', error }])
  const ref = { kind: 'event', id: event.id } as const
  expect(await session.takePublishing(ref, RIGHT_MS)).toMatchObject({ kind: 'taken' })
  expect(await session.takePublishing(ref, RIGHT_MS)).toEqual({ kind: 'held' })
  await setBack()
  expect(await session.takePublishing(ref, RIGHT_MS)).toMatchObject({ kind: 'taken' })
})

const TIMES = { waitMs: 1_000, budgetMs: 10_000 }
