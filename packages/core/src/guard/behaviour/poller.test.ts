import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Clock } from '../../fixtures/clock.ts'
import { changedInbox, registration, silent } from '../../fixtures/inbox.ts'
import { memoryInbox, toDelivery } from '../../memory/index.ts'
import { portOf } from '../../model/guard-port.ts'
import type { DueEvent } from '../../model/inbox.ts'
import { createGuard } from '../guard.ts'

type Found = readonly DueEvent[]

/** A guard with a slot for each of `count` replayed messages, whose handlers wait for the test. */
async function replaying(
  count: number,
  change: (found: Found, started: readonly unknown[]) => Found = (found) => found,
) {
  const clock = new Clock()
  // The pauses of the background are spread at random.
  const runtime = { ...clock.runtime, random: () => 0.5 }
  const memory = memoryInbox()
  let searches = 0
  const inbox = changedInbox(memory, (session) => ({
    due: async (limit) => {
      searches += 1
      return change(await session.due(100), started).slice(0, limit)
    },
  }))
  const ends: (() => void)[] = []
  const started: unknown[] = []
  const guard = createGuard(
    { consumer: 'billing', inbox, logger: silent, runtime, concurrency: 24 },
    async ({ payload }) => {
      started.push(payload)
      await new Promise<void>((resolve) => void ends.push(resolve))
    },
  )
  const session = await memory.open(registration({ runtime }))
  const replay = async (n: number): Promise<void> => {
    const delivery = toDelivery(n, { headers: { 'idempotency-key': `${n}` } })
    const error = new Error('no key')
    const [ref] = await session.refuse([{ delivery, reason: 'missing-event-key', error }])
    if (ref !== undefined) memory.replay(ref)
  }
  for (let n = 0; n < count; n += 1) await replay(n)
  await portOf(guard).open()
  const wait = async (ms: number): Promise<void> => {
    for (let passedMs = 0; passedMs < ms; passedMs += 50) {
      clock.advance(50)
      for (let turns = 0; turns < 20; turns += 1) await turn()
    }
  }
  return { guard, started, ends, replay, wait, searches: () => searches }
}

test('of replayed messages no more than ten run at once, and while they do nothing is searched', async () => {
  const { ends, guard, searches, started, wait } = await replaying(24)
  await wait(6_000)
  expect(started).toHaveLength(10)
  const before = searches()
  await wait(12_000)
  expect(started).toHaveLength(10)
  expect(searches()).toBe(before)
  // The next ones follow when half of the places are free, without the pause of an idle guard.
  for (const end of ends.splice(0, 4)) end()
  await wait(100)
  expect(searches()).toBe(before)
  ends.shift()?.()
  await wait(100)
  expect(started.length).toBeGreaterThan(12)
  while (started.length < 24 || ends.length > 0) {
    expect(ends.length).toBeLessThanOrEqual(10)
    for (const end of ends.splice(0, 5)) end()
    await wait(100)
  }
  await guard.close()
  expect(new Set(started).size).toBe(24)
})

test('the end of an event is followed by no search while nothing else is due', async () => {
  const { ends, guard, searches, started, wait } = await replaying(6)
  await wait(6_000)
  expect(started).toHaveLength(6)
  const before = searches()
  for (const end of ends) {
    end()
    await wait(50)
  }
  expect(searches()).toBe(before)
  await guard.close()
})

test('an idle guard searches at its own pace', async () => {
  const { guard, searches, wait } = await replaying(0)
  await wait(60_000)
  const before = searches()
  await wait(60_000)
  expect(searches() - before).toBeLessThanOrEqual(12)
  await guard.close()
})

/** What a search finds of events with a key: the rows of those that run are not due. */
const withoutRunning = (found: Found, started: readonly unknown[]): Found =>
  found.filter(({ delivery }) => !started.includes(Number(Buffer.from(delivery.body))))

test('no more events start than places are free, even if a search finds more that do not run yet', async () => {
  const { ends, guard, started, wait } = await replaying(24, withoutRunning)
  // Before the second search, which would find all places taken and so know that more may be due.
  await wait(2_000)
  expect(started).toHaveLength(10)
  for (const end of ends.splice(0, 5)) end()
  await wait(100)
  expect(started).toHaveLength(15)
  while (ends.length > 0) {
    for (const end of ends.splice(0)) end()
    await wait(100)
  }
  await guard.close()
})

test('the end of an event is followed by no search if all that was due has a place', async () => {
  const { ends, guard, replay, searches, started, wait } = await replaying(4, withoutRunning)
  await wait(2_000)
  expect(started).toHaveLength(4)
  for (let n = 4; n < 10; n += 1) await replay(n)
  while (started.length < 10) await wait(50)
  const before = searches()
  for (const end of ends) end()
  await wait(100)
  expect(searches()).toBe(before)
  await guard.close()
})

test('the end of an event is followed by no search after a search that failed', async () => {
  let isDown = false
  const { ends, guard, searches, wait } = await replaying(6, (found) => {
    if (isDown) throw new Error('the database is down')
    return found
  })
  await wait(2_000)
  isDown = true
  const earlier = searches()
  while (searches() === earlier) await wait(50)
  const before = searches()
  for (const end of ends) end()
  await wait(100)
  expect(searches()).toBe(before)
  await guard.close()
})
