import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import { changedInbox, registration, silent } from '../fixtures/inbox.ts'
import { memoryInbox, toDelivery } from '../memory/index.ts'
import { portOf } from '../model/guard-port.ts'
import { createGuard } from './guard.ts'

/** A guard with a slot for each of `count` replayed messages, whose handlers wait for the test. */
async function replaying(count: number) {
  const clock = new Clock()
  // The pauses of the background are spread at random.
  const runtime = { ...clock.runtime, random: () => 0.5 }
  const memory = memoryInbox()
  let searches = 0
  const inbox = changedInbox(memory, (session) => ({
    due: (limit) => {
      searches += 1
      return session.due(limit)
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
  for (let n = 0; n < count; n += 1) {
    const delivery = toDelivery(n, { headers: { 'idempotency-key': `${n}` } })
    const error = new Error('no key')
    const [ref] = await session.refuse([{ delivery, reason: 'missing-event-key', error }])
    if (ref !== undefined) memory.replay(ref)
  }
  await portOf(guard).open()
  const wait = async (ms: number): Promise<void> => {
    for (let passedMs = 0; passedMs < ms; passedMs += 50) {
      clock.advance(50)
      for (let turns = 0; turns < 20; turns += 1) await turn()
    }
  }
  return { guard, started, ends, wait, searches: () => searches }
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
