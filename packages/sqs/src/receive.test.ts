import { expect, test } from 'vitest'
import { answer, type Receiving, receiving } from './fixtures/receiving.ts'

const reset = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })

const asked = ({ receives }: Receiving): readonly number[] => receives.map(({ max }) => max)

test('receiving starts with one receive, and adds one after each non-empty receive, as far as there is room', async () => {
  const kit = await receiving({ batch: { size: 100 } }, { concurrency: 25 }).started()
  expect(asked(kit)).toEqual([10])
  await answer(kit, 'a1')
  expect(kit.run()).toEqual(['a1'])
  expect(asked(kit)).toEqual([10, 10, 10])
  await answer(kit, 'b1')
  // Three at once are enough for what may be in hand, and the third has the rest of the room.
  expect(asked(kit)).toEqual([10, 10, 10, 10, 3])
  await answer(kit, 'c1')
  expect(asked(kit)).toEqual([10, 10, 10, 10, 3, 2])
  // An empty queue gets one receive.
  for (const receive of kit.receives.slice(1)) receive.answer()
  await kit.clock.advance(10_000)
  expect(asked(kit).slice(6)).toEqual([10])
})

test('after an outage the first receive does not long-poll, and the next one follows at once', async () => {
  const kit = await receiving().started()
  kit.receives[0]?.fail(reset)
  await kit.clock.advance(0)
  expect(kit.dispatcher.outage).toMatchObject({ state: 'recovering' })
  await kit.clock.advance(200)
  expect(kit.receives).toMatchObject([{}, { waitMs: 0 }])
  expect(kit.dispatcher.lastProgressAt).toBeUndefined()
  await answer(kit)
  expect(kit.dispatcher.lastProgressAt).toEqual(new Date(kit.clock.nowMs))
  expect([kit.dispatcher.outage, kit.receives.length]).toEqual([undefined, 3])
})

test('a store that is down is checked every second, and probed when its retry time has come', async () => {
  const kit = receiving()
  kit.down(1_500)
  await kit.started()
  expect(kit.dispatcher.outage).toEqual({ state: 'paused', reason: 'Error: store' })
  await kit.clock.advance(1_499)
  expect(kit.receives).toEqual([])
  await kit.clock.advance(1)
  expect([asked(kit), kit.clock.timers]).toEqual([[1], 0])
  // One probe at a time.
  kit.dispatcher.pump()
  await answer(kit, 'a1')
  expect([asked(kit), kit.run()]).toEqual([[1], ['a1']])
  kit.dispatcher.pump()
  expect(asked(kit)).toEqual([1])
  // The next ones are messages in hand: each receive counts.
  for (let probes = 2; probes < 5; probes += 1) {
    await kit.settle('a1', kit.down(0))
    await kit.clock.advance(0)
    expect([asked(kit), kit.run().length]).toEqual([[1], probes])
  }
  kit.state.availability = { kind: 'available' }
  kit.dispatcher.pump()
  expect([kit.dispatcher.outage, asked(kit)]).toEqual([undefined, [1, 9]])
})

test('a paused consumer gives back what was not started, receives nothing, and goes on when it is resumed', async () => {
  const kit = await receiving({}, { concurrency: 2 }).started()
  await answer(kit, ...[...'abcdefghi'].map((group) => `${group}1`))
  const ran = kit.run()
  expect(ran.length).toBeLessThan(9)
  const receives = kit.receives.length
  kit.pause({ source: 'operator', by: 'ana' })
  expect(kit.dispatcher.outage).toMatchObject({ state: 'paused' })
  await kit.clock.advance(10)
  const given = (): readonly unknown[] =>
    kit.recording.calls
      .filter(({ name }) => name === 'change')
      .flatMap(({ input }) => (input as { Entries: { VisibilityTimeout: number }[] }).Entries)
      .map(({ VisibilityTimeout }) => VisibilityTimeout)
  expect(given()).toEqual(Array.from({ length: 9 - ran.length }, () => 0))
  // What runs is settled, and no message takes its place.
  await kit.settle('a1')
  await kit.clock.advance(60_000)
  expect([kit.run(), kit.receives.length]).toEqual([ran, receives])
  kit.pause(undefined)
  await kit.clock.advance(1_000)
  expect([kit.dispatcher.outage, kit.receives.length]).toEqual([undefined, receives + 1])
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

test('messages of a receive from before the outage wait, but for one group that asks', async () => {
  const kit = await receiving().started()
  kit.down(0)
  // A receive is open, so no other one is made.
  for (let round = 0; round < 2; round += 1) kit.dispatcher.pump()
  expect(asked(kit)).toEqual([10])
  await answer(kit, 'a1', 'b1', 'a2')
  await kit.clock.advance(10)
  expect([kit.run(), kit.recording.changed()]).toEqual([['a1', 'a2'], [[['h-b1', 30]]]])
  kit.dispatcher.pump()
  expect(asked(kit)).toEqual([10])
  // An answer of the queue is not logged while the store is down.
  expect(kit.logged.map(({ text }) => text)).toEqual([
    'the consumer receives nothing now and tries again by itself',
  ])
  const early = await receiving().started()
  early.down(1)
  await answer(early, 'a1', 'b1')
  await early.clock.advance(0)
  expect(early.run()).toEqual([])
})

test('trap B2: a stop lets receives in flight end, returns their messages, and leaves no timer', async () => {
  const stopped = async (end: (kit: Receiving) => void): Promise<Receiving> => {
    const kit = await receiving().started()
    kit.dispatcher.stop()
    const ended = kit.dispatcher.ended()
    end(kit)
    await kit.clock.advance(10)
    await ended
    return kit
  }
  const kit = await stopped(({ receives }) => receives[0]?.answer('a1'))
  expect([kit.run(), kit.recording.changed()]).toEqual([[], [[['h-a1', 0]]]])
  const empty = await stopped(({ receives }) => receives[0]?.answer())
  const failing = await stopped(({ abort }) => abort.abort())
  for (const { clock, dispatcher } of [empty, failing]) {
    expect([clock.timers, dispatcher.outage]).toEqual([0, undefined])
  }
  const waiting = await receiving().started()
  waiting.receives[0]?.fail(reset)
  await waiting.clock.advance(0)
  waiting.dispatcher.stop()
  await waiting.clock.advance(60_000)
  expect([kit.ends, waiting.receives.length]).toEqual([[], 1])
})

test('a closed guard stops its consumer, and no other abandoned event does', async () => {
  const kit = await receiving().started()
  await answer(kit, 'a1', 'b1', 'c1')
  await kit.settle('a1', { kind: 'abandon', reason: 'lease-lost' })
  await kit.settle('b1')
  expect(kit.ends).toEqual([])
  await kit.settle('c1', { kind: 'abandon', reason: 'closing' })
  expect(kit.ends).toEqual([{ kind: 'closed' }])
})
