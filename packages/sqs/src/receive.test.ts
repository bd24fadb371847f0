import { ConfigurationError, StoreUnavailableError } from '@onceward/core'
import { expect, test } from 'vitest'
import { answer, type Receiving, receiving } from './fixtures/receiving.ts'

const reset = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })

const asked = ({ receives }: Receiving): readonly number[] => receives.map(({ max }) => max)

test('receiving starts with one receive, and adds one after each non-empty receive, as far as there is room', async () => {
  const kit = receiving({ batch: { size: 100 } })
  Object.assign(kit.world, { room: 25, capacity: 25 })
  await kit.started()
  expect(asked(kit)).toEqual([10])
  await answer(kit, 'a1')
  expect(kit.told).toEqual(['take a1'])
  expect(asked(kit)).toEqual([10, 10, 10])
  await answer(kit, 'b1')
  // Three at once are enough for what may be in hand, and the third has room for five.
  expect(asked(kit)).toEqual([10, 10, 10, 10, 5])
  await answer(kit, 'c1')
  expect(asked(kit)).toEqual([10, 10, 10, 10, 5, 5])
  // An empty queue gets one receive.
  for (const receive of kit.receives.slice(1)) receive.answer()
  await kit.clock.advance(10_000)
  expect(asked(kit).slice(6)).toEqual([10])
})

test('nothing is received before the queue is checked', async () => {
  const kit = receiving()
  const checked = Promise.withResolvers<void>()
  kit.world.check = () => checked.promise
  const started = kit.started()
  kit.receiver.pump()
  expect(kit.receives).toEqual([])
  checked.resolve()
  await started
  expect(kit.receives).toMatchObject([{ max: 10, waitMs: 20_000 }])
  expect(kit.receiver.outage).toBeUndefined()
})

test('a failed check is reported until the next one succeeds, and only then messages are received', async () => {
  const kit = receiving()
  kit.world.check = () => Promise.reject(reset)
  await kit.started()
  expect(kit.receiver.outage).toEqual({
    ...{ state: 'recovering', reason: 'Error: read ECONNRESET' },
  })
  expect(kit.logged).toMatchObject([{ fields: { queue: expect.stringMatching(/orders/) } }])
  kit.world.check = async () => undefined
  await kit.clock.advance(200)
  expect(kit.receiver.outage).toBeUndefined()
  expect(kit.receives).toMatchObject([{ waitMs: 20_000 }])
})

test('a check that can never succeed stops the consumer with its reason', async () => {
  const kit = receiving()
  kit.world.check = () => Promise.reject(new StoreUnavailableError('gone'))
  await kit.started()
  const error = new ConfigurationError('no tables')
  kit.world.check = () => Promise.reject(error)
  await kit.clock.advance(1_000)
  expect(kit.ends).toEqual([{ kind: 'fatal', error }])
  const failing = await receiving().started()
  failing.receives[0]?.fail(error)
  await failing.clock.advance(0)
  expect(failing.ends).toEqual([{ kind: 'fatal', error }])
})

test('after an outage the first receive does not long-poll, and the next one follows at once', async () => {
  const kit = await receiving().started()
  kit.receives[0]?.fail(reset)
  await kit.clock.advance(0)
  expect(kit.receiver.outage).toMatchObject({ state: 'recovering' })
  await kit.clock.advance(200)
  expect(kit.receives).toMatchObject([{}, { waitMs: 0 }])
  expect(kit.receiver.lastProgressAt).toBeUndefined()
  await answer(kit)
  expect(kit.receiver.lastProgressAt).toEqual(new Date(kit.clock.nowMs))
  expect([kit.receiver.outage, kit.receives.length]).toEqual([undefined, 3])
})

test('a store that is down is checked every second, and probed when its retry time has come', async () => {
  const kit = receiving()
  kit.down(1_500)
  await kit.started()
  expect(kit.receiver.outage).toEqual({ state: 'paused', reason: 'Error: store' })
  await kit.clock.advance(1_499)
  expect([kit.receives.length, kit.told]).toEqual([0, []])
  await kit.clock.advance(1)
  expect([asked(kit), kit.told, kit.clock.timers]).toEqual([[1], ['ask'], 0])
  // One probe at a time.
  kit.receiver.pump()
  expect([asked(kit), kit.told]).toEqual([[1], ['ask']])
  await answer(kit, 'a1', 'b1')
  expect(kit.told).toEqual(['ask', 'take a1 b1'])
  expect(asked(kit)).toEqual([1])
  kit.receiver.known({ kind: 'defer', reason: 'store-down', until: kit.clock.nowMs as never })
  kit.receiver.pump()
  expect([asked(kit), kit.told.slice(2)]).toEqual([[1, 1], ['ask']])
  kit.state.availability = { kind: 'available' }
  kit.receiver.pump()
  expect(kit.receiver.outage).toBeUndefined()
})

test('a probe that finds no message, or fails, is repeated', async () => {
  const kit = receiving()
  kit.down(0)
  await kit.started()
  await kit.clock.advance(20_000)
  await answer(kit)
  expect(asked(kit)).toEqual([1, 1])
  kit.receives[1]?.fail(reset)
  await kit.clock.advance(1_000)
  expect(asked(kit)).toEqual([1, 1, 1])
})

test('messages in hand are the first probes, one at a time', async () => {
  const kit = receiving({ batch: { size: 100 } })
  Object.assign(kit.world, { room: 100, capacity: 100, isInHand: true })
  await kit.started()
  await answer(kit, 'a1')
  expect(kit.receives).toHaveLength(3)
  kit.down(0)
  kit.receiver.pump()
  expect(kit.told).toEqual(['take a1', 'ask'])
  // The results of older receives are not an answer to the probe.
  await kit.clock.advance(20_000)
  await answer(kit)
  kit.receives[1]?.fail(reset)
  await kit.clock.advance(1_000)
  expect([kit.told.slice(2).filter((each) => each === 'ask'), kit.receives.length]).toEqual([[], 3])
  expect(kit.receiver.outage).toMatchObject({ state: 'paused' })
})

test('messages in hand probe the store while an older receive is open, and nothing new is received', async () => {
  const kit = await receiving().started()
  kit.down(0)
  for (let round = 0; round < 2; round += 1) kit.receiver.pump()
  expect([kit.told, kit.receives.length]).toEqual([['ask', 'ask'], 1])
  await kit.clock.advance(20_000)
  kit.down(0)
  // The first group probes, the others wait for the result.
  await answer(kit, 'a1', 'b1', 'a2')
  expect(kit.told.slice(2)).toEqual(['take a1 a2', 'park b1'])
  kit.receiver.pump()
  expect([kit.told.length, kit.receives.length]).toEqual([4, 1])
  // An answer of the queue is not logged while the store is down.
  expect(kit.logged.map(({ text }) => text)).toEqual(['the consumer receives nothing now'])
})

test.each([
  ['before it is time', 1],
  ['while another asks', 0],
])('messages of a receive from before the outage wait %s', async (what, retryMs) => {
  const kit = await receiving().started()
  kit.down(retryMs)
  kit.world.isInHand = true
  if (what === 'while another asks') kit.receiver.pump()
  const before = kit.told.length
  await answer(kit, 'a1', 'b1')
  expect(kit.told.slice(before)).toEqual(['park a1 b1'])
})

test('trap B2: a stop lets receives in flight end, returns their messages, and leaves no timer', async () => {
  const kit = await receiving().started()
  await kit.receiver.stop()
  kit.receives[0]?.answer('a1')
  await Promise.all(kit.tracked)
  expect([kit.told, kit.receiver.outage]).toEqual([['refuse a1'], undefined])
  kit.receiver.known({ kind: 'abandon', reason: 'closing' })
  const empty = await receiving().started()
  await empty.receiver.stop()
  empty.receives[0]?.answer()
  await Promise.all(empty.tracked)
  const failing = await receiving().started()
  await failing.receiver.stop()
  failing.abort.abort()
  await Promise.all(failing.tracked)
  expect(failing.tracked).toHaveLength(1)
  expect([empty.clock.timers, failing.clock.timers, failing.receiver.outage]).toEqual([
    ...[0, 0],
    undefined,
  ])
  const waiting = await receiving().started()
  waiting.receives[0]?.fail(reset)
  await waiting.clock.advance(0)
  await waiting.receiver.stop()
  await waiting.clock.advance(60_000)
  expect([kit.ends, waiting.receives.length]).toEqual([[], 1])
})

test('a closed guard stops its consumer, and no other abandoned event does', async () => {
  const kit = await receiving().started()
  kit.receiver.known({ kind: 'abandon', reason: 'lease-lost' })
  kit.receiver.known({ kind: 'ack', by: 'processed' })
  expect(kit.ends).toEqual([])
  kit.receiver.known({ kind: 'abandon', reason: 'closing' })
  expect(kit.ends).toEqual([{ kind: 'closed' }])
})
