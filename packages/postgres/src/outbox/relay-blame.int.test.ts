import type { Confirmation, OutgoingMessage } from '@onceward/core'
import { until } from '@onceward/testing'
import { expect, test } from 'vitest'
import { recording, text, useRelays } from '../fixtures/relays.ts'

const kit = useRelays()
const { left, send, start: relay } = kit

const many = (count: number, keys: number) =>
  Array.from({ length: count }, (_, n) => ({ to: 'a', key: `k${n % keys}`, payload: n }))

const POISON = '3'
/** What a destination answers to the poison message, and how many messages a call has. */
const ANSWERS: readonly (readonly [
  what: string,
  batch: number,
  answer: () => Confirmation | Promise<Confirmation>,
])[] = [
  ['fails', 1, () => ({ unknown: new Error('500') })],
  ['fails', 10, () => ({ unknown: new Error('500') })],
  ['rejects its call', 10, () => Promise.reject(new Error('reset'))],
  ['gets no answer', 1, () => new Promise(() => undefined)],
  ['gets no answer', 10, () => new Promise(() => undefined)],
]

// Red before: the first failure stopped the look and opened the breaker, no attempt was ever counted, and the others left at
// the pace of the breaker.
test.each(ANSWERS)(
  'a message that %s while others leave is counted and dies, and no other waits for it (calls of %i)',
  async (_what, batch, answer) => {
    const { destination, got } = recording(
      (message) => (text(message) === POISON ? answer() : undefined),
      batch,
    )
    const started = await relay({ a: destination }, { attempts: 2, callMs: 4_000, leaseMs: 1_000 })
    const startedAt = performance.now()
    await send(...many(200, 200))
    await until(async () => (await left()) === 1)
    // A call of a batch hangs until its time is over.
    expect(performance.now() - startedAt).toBeLessThan(batch === 1 ? 3_000 : 9_000)
    expect(new Set(got.map(text)).size).toBe(199)
    await until(() => left("state = 'w' and attempt = 1").then((n) => n === 1))
    expect(started.health().outages).toBeUndefined()
    const isDead = () => left("state = 'x' and attempt = 2").then((n) => n === 1)
    await until(isDead, { deadlineMs: 60_000 })
  },
)

test('a key that fails while 19 others leave holds its own messages alone', async () => {
  const { destination, got } = recording(
    ({ key }) => (key === 'k3' ? { unknown: new Error('503') } : undefined),
    1,
  )
  await relay({ a: destination })
  await send(...many(200, 20))
  await until(() => got.length === 190)
  await until(() => left("state = 'w' and attempt >= 1").then((n) => n === 1))
  await send(...many(20, 20))
  await until(() => got.length === 209)
  // What was confirmed is deleted behind its call.
  await until(() => left().then((n) => n === 11))
})

// Red before: a queue that was missing made a dead letter of every message within eight minutes.
test.each([
  ['answers that it is down', () => ({ down: new Error('no queue') })],
  ['answers nothing that helps', () => ({ unknown: new Error('503') })],
  ['rejects', () => Promise.reject(new Error('ECONNREFUSED'))],
] as const)(
  'while a destination that %s fails with everything, nothing is counted',
  async (_what, answer) => {
    let isDown = true
    const tried = new Set<string>()
    const { destination, got } = recording((message) => {
      tried.add(text(message))
      return isDown ? answer() : undefined
    })
    const started = await relay({ a: destination }, { attempts: 1 })
    await send(...many(40, 40))
    await until(() => started.health().outages !== undefined && tried.size > 12)
    expect(await left("state = 'q' and attempt = 0")).toBe(40)
    const down = { state: 'recovering', reason: expect.stringContaining('down: a: ') }
    expect(started.health()).toMatchObject(down)
    isDown = false
    await until(async () => (await left()) === 0)
    expect(got.map(text).toSorted()).toEqual(
      many(40, 40)
        .map(({ payload }) => `${payload}`)
        .toSorted(),
    )
  },
)

test('a message that fails alone keeps no new message waiting, and is counted after some looks', async () => {
  const isPoison = (message: OutgoingMessage): boolean => text(message) === '0'
  const { destination, got } = recording((message) =>
    isPoison(message) ? { unknown: new Error('500') } : undefined,
  )
  const started = await relay({ a: destination })
  await send({ to: 'a', key: 'poison', payload: 0 })
  await until(() => started.health().outages !== undefined)
  expect(await left('attempt = 0')).toBe(1)
  const sentAt = performance.now()
  await send({ to: 'a', key: 'other', payload: 1 })
  await until(() => got.length === 1)
  expect(performance.now() - sentAt).toBeLessThan(2_500)
  await until(() => left("state = 'w' and attempt > 0").then((n) => n === 1))
})

test('waits between attempts are as they were set, and end so long after the first refusal', async () => {
  let tries = 0
  const { destination } = recording(() => {
    tries += 1
    return { refused: new Error('422') }
  })
  await relay({ a: destination }, { baseMs: 10, maxMs: 20, giveUpAfterMs: 3_000 })
  await send({ to: 'a', key: 'old', payload: 0 })
  // Its age ends no message: what has waited behind another one is tried as long.
  await kit.pool.query("update onceward.outbox_messages set created_at = now() - interval '1 year'")
  // More than the default of `attempts`, which takes minutes by default.
  await until(() => left("state = 'w' and attempt > 10").then((n) => n === 1))
  await until(() => left("state = 'x'").then((n) => n === 1))
  expect(await left(`state = 'x' and attempt = ${tries}`)).toBe(1)
})

test('of `attempts` and `giveUpAfterMs`, what comes first ends a message', async () => {
  const { destination } = recording(() => ({ refused: new Error('422') }))
  await relay({ a: destination }, { baseMs: 10, attempts: 3, giveUpAfterMs: 3_600_000 })
  await send({ to: 'a', payload: 0 })
  await until(() => left("state = 'x' and attempt = 3").then((n) => n === 1))
})

// Red before: what was not answered counted as confirmed and was deleted.
test.each<readonly [what: string, answers: () => unknown]>([
  ['too few answers', () => [undefined]],
  ['too many answers', () => Array.from({ length: 11 }, () => undefined)],
  ['no list', () => undefined],
])('%s of a destination lose nothing and are named', async (_what, answers) => {
  let isWrong = true
  const published: string[] = []
  const started = await relay({
    a: {
      batch: 10,
      publish: async (messages) => {
        // With one message more, because a call of one message fits one answer.
        if (isWrong) return (messages.length > 1 ? answers() : []) as never
        published.push(...messages.map(text))
        return messages.map(() => undefined)
      },
    },
  })
  await send(...many(3, 3))
  await until(() => started.health().outages !== undefined)
  expect(started.health().outages?.[0]?.reason).toContain('an answer for each message')
  isWrong = false
  await until(async () => (await left()) === 0)
  expect(published.toSorted()).toEqual(['0', '1', '2'])
})
