import type { EventId } from '@onceward/core'
import { newClaim } from '@onceward/testing/conformance'
import { expect, test } from 'vitest'
import { scriptedRedis } from './fixtures/scripted-redis.ts'

const MINUTE_MS = 60_000

async function idle(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

const SAMPLED = `00ababab${'-abab'.repeat(3)}-${'ab'.repeat(6)}`

/** A session whose first partition has one done mark. */
function setUp(isDone: (ids: readonly EventId[]) => Promise<readonly boolean[]>) {
  const postgres = { history: 'first' }
  const asked: (readonly EventId[])[] = []
  const kit = scriptedRedis({
    identity: async () => postgres.history,
    isDone: (ids) => {
      asked.push(ids)
      return isDone(ids)
    },
  })
  kit.answers.set('sample', ({ entries }) =>
    entries.map((_, index) => (index === 0 ? 'ab'.repeat(15) : '')),
  )
  const answerDuplicates = (): unknown =>
    kit.answers.set('claim', ({ entries }) => entries.map(() => ['duplicate']))
  const kinds = async () => (await kit.session.claim([newClaim()])).map(({ kind }) => kind)
  return { ...kit, postgres, asked, answerDuplicates, kinds }
}

// Red when redelivered events would be acked whose rows were removed, and so their effects.
test('a done mark whose row is gone is reported, and no done mark is believed from then on', async () => {
  const { session, registration, answerDuplicates, kinds } = setUp(async (ids) =>
    ids.map(() => false),
  )
  await session.start()
  expect(registration.told).toMatchObject([
    {
      level: 'error',
      fields: {
        consumer: 'billing',
        eventId: SAMPLED,
      },
      message: expect.stringContaining('without forgetHistory()'),
    },
  ])
  answerDuplicates()
  expect(await kinds()).toEqual(['unknown'])
})

test('the marks are sampled at the start and then once a minute', async () => {
  const { session, sent, asked, clock, answerDuplicates, kinds, registration } = setUp(
    async (ids) => ids.map(() => true),
  )
  await session.start()
  answerDuplicates()
  expect(sent('sample')).toBe(1)
  clock.nowMs += MINUTE_MS - 1
  expect(await kinds()).toEqual(['duplicate'])
  expect(sent('sample')).toBe(1)
  clock.nowMs += 1
  await kinds()
  await kinds()
  await idle()
  expect(sent('sample')).toBe(2)
  expect(asked).toEqual([[SAMPLED], [SAMPLED]])
  expect(registration.told).toEqual([])
})

test('a sample that fails or hangs stops no start and no claim', async () => {
  const gate = { isDone: () => Promise.reject<readonly boolean[]>(new Error('no connection')) }
  const { session, registration, fire, clock, answerDuplicates, kinds } = setUp(() => gate.isDone())
  await session.start()
  expect(registration.told).toMatchObject([
    { level: 'debug', fields: { consumer: 'billing', err: { message: 'no connection' } } },
  ])
  answerDuplicates()
  expect(await kinds()).toEqual(['duplicate'])
  gate.isDone = () => new Promise(() => undefined)
  clock.nowMs += MINUTE_MS
  expect(await kinds()).toEqual(['duplicate'])
  await idle()
  fire(2_000)
  await idle()
  expect(registration.told.at(-1)?.fields).toMatchObject({
    err: { message: expect.stringContaining('2000 ms') },
  })
})

// Red when the marks of a history that has just ended are reported as lost rows.
test('rows that are missing while PostgreSQL does not say which history it has prove nothing', async () => {
  const late = Promise.withResolvers<readonly boolean[]>()
  const { session, registration, clock } = setUp(() => late.promise)
  const starting = session.start()
  await idle()
  clock.nowMs += 5_001
  late.resolve([false])
  await starting
  expect(registration.told).toEqual([])
})

// Red when the rows of a database that was just restored are compared with the marks of the one before.
test('rows that are missing in another history prove nothing', async () => {
  const { session, postgres, registration, answerDuplicates, kinds } = setUp(async (ids) => {
    postgres.history = 'second'
    return ids.map(() => false)
  })
  await session.start()
  expect(registration.told).toEqual([])
  postgres.history = 'first'
  answerDuplicates()
  expect(await kinds()).toEqual(['duplicate'])
})

test('PostgreSQL is not asked when there are no marks, and Redis not when nobody can be asked', async () => {
  const { session, answers, asked, registration, sent } = setUp(async () => [])
  answers.set('sample', ({ entries }) => entries.map(() => ''))
  await session.start()
  expect([sent('sample'), asked, registration.told]).toEqual([1, [], []])
  const identity = async (): Promise<string> => 'first'
  const isDone = async (): Promise<readonly boolean[]> => []
  for (const over of [{}, { identity }, { isDone }]) {
    const kit = scriptedRedis(over)
    await kit.session.start()
    expect([kit.sent('examine'), kit.sent('sample')]).toEqual([1, 0])
    expect(kit.registration.told).toEqual([])
  }
})
