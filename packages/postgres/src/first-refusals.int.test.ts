import { createGuard } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { database, until } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import pg from 'pg'
import { expect, test } from 'vitest'
import { all } from './fixtures/inbox.ts'
import { deadLetters, migrate, resumeConsumer } from './index.ts'
import { pgInbox } from './pg.ts'

// Red before: all of them were dead letters, and the queue was empty.
test('a wrong `eventKey` pauses a new consumer after twenty dead letters, until an operator resumes it', async () => {
  const pool = new pg.Pool({ connectionString: (await database()).url })
  await migrate(pool)
  let isWrong = true
  const guard = createGuard(
    {
      ...{ consumer: 'billing', inbox: pgInbox(pool), logger: silent },
      eventKey: ({ messageId }) => (isWrong ? undefined : messageId),
    },
    async () => undefined,
  )
  const orders = Array.from({ length: 30 }, (_, n) => toDelivery({ n }, { messageId: `${n}` }))
  const count = async (): Promise<number> =>
    (await all(deadLetters(pool).list({ consumer: 'billing' }))).length
  const settlements = await guard.processBatch(orders)
  expect(settlements.map(({ kind }) => kind)).toEqual([
    ...Array.from({ length: 20 }, () => 'dead-letter'),
    ...Array.from({ length: 10 }, () => 'defer'),
  ])
  expect(settlements.at(-1)).toMatchObject({
    cause: 'paused',
    error: { message: expect.stringContaining('its first 20 messages were all refused') },
  })
  expect(await count()).toBe(20)
  // Also what could be read waits: the consumer is paused in all its processes.
  isWrong = false
  expect(await guard.process(orders[29] as never)).toMatchObject({ kind: 'defer', cause: 'paused' })
  await resumeConsumer(pool, 'billing')
  await until(async () => (await guard.process(orders[29] as never)).kind === 'ack')
  isWrong = true
  expect((await guard.processBatch(orders)).every(({ kind }) => kind === 'dead-letter')).toBe(true)
  await guard.close()
  await pool.end()
})
