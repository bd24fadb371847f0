import type { EventId } from '@onceward/core/ports'
import { newClaim } from '@onceward/testing/conformance'
import { expect, test } from 'vitest'
import { scriptedRedis } from './fixtures/scripted-redis.ts'

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
  expect(registration.logged).toMatchObject([
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

// Red when the marks of a history that has just ended are reported as lost rows.
test('rows that are missing while PostgreSQL does not say which history it has prove nothing', async () => {
  const late = Promise.withResolvers<readonly boolean[]>()
  const { session, registration, clock } = setUp(() => late.promise)
  const starting = session.start()
  await idle()
  clock.nowMs += 5_001
  late.resolve([false])
  await starting
  expect(registration.logged).toEqual([])
})

// Red when the rows of a database that was just restored are compared with the marks of the one before.
test('rows that are missing in another history prove nothing', async () => {
  const { session, postgres, registration, answerDuplicates, kinds } = setUp(async (ids) => {
    postgres.history = 'second'
    return ids.map(() => false)
  })
  await session.start()
  expect(registration.logged).toEqual([])
  postgres.history = 'first'
  answerDuplicates()
  expect(await kinds()).toEqual(['duplicate'])
})
