import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { message, RecordingClient } from './fixtures/recording-client.ts'
import { wrapSqs } from './wrap.ts'

const queueUrl = 'http://127.0.0.1/000000000000/orders'

function setUp() {
  const recording = new RecordingClient()
  const made = handMadeGuard()
  const handle = wrapSqs(recording.client, made.guard, { queueUrl })
  const until = (afterMs: number) => (made.clock.nowMs + afterMs) as never
  return { ...made, recording, handle, until }
}

test('health tells of the store and of the messages in hand, and a drain gives back what was not started', async () => {
  const kit = setUp()
  const { consumption } = kit.handle
  expect(consumption.health()).toEqual({ state: 'running', inFlight: 0, settleFailures: 0 })
  const error = new Error('no route to the database')
  kit.state.availability = { kind: 'down', retryAt: kit.until(1_000), error }
  expect(consumption.health()).toMatchObject({ state: 'paused', reason: `Error: ${error.message}` })
  kit.state.availability = { kind: 'available' }

  const done = kit.handle([message('a'), message('b')])
  await kit.clock.advance(0)
  expect(consumption.health().inFlight).toBe(2)
  const drained = consumption.drain()
  expect(consumption.health().state).toBe('draining')
  expect([kit.hooks[0]?.stop?.aborted, kit.hooks[0]?.abort?.aborted]).toEqual([true, false])
  kit.handed[1]?.settle({ kind: 'abandon', reason: 'closing' })
  await kit.clock.advance(100)
  expect(kit.recording.changed()).toEqual([[['h-b', 0]]])
  await kit.clock.advance(19_900)
  expect(kit.hooks[0]?.abort?.aborted).toBe(true)
  kit.handed[0]?.settle({ kind: 'ack', by: 'processed' })
  await kit.clock.advance(100)
  await drained
  expect(await done).toEqual([])
  expect(kit.recording.deleted()).toEqual([['h-a']])
  expect(consumption.health()).toEqual({
    ...{ state: 'stopped', inFlight: 0, settleFailures: 0 },
    lastProgressAt: expect.any(Date),
  })
  expect([kit.publishers.size, kit.clock.timers]).toEqual([0, 0])
  expect(consumption.drain()).toBe(drained)
})

test('what is handed over after a drain is given back', async () => {
  const kit = setUp()
  await kit.handle.consumption.drain()
  const done = kit.handle([message('late')])
  await kit.clock.advance(0)
  expect(kit.hooks[0]?.stop?.aborted).toBe(true)
  kit.handed[0]?.settle({ kind: 'abandon', reason: 'closing' })
  await kit.clock.advance(100)
  expect(await done).toEqual([])
  expect(kit.recording.changed()).toEqual([[['h-late', 0]]])
})

test("a wrap publishes dead letters for the guard's poller until it is drained", async () => {
  const { guard, publishers } = handMadeGuard()
  const deadLetter = { queueUrl: `${queueUrl}-dead` }
  const handle = wrapSqs(new RecordingClient().client, guard, { queueUrl, deadLetter })
  expect([...publishers.keys()]).toEqual([queueUrl])
  await handle.consumption.drain()
  expect([...publishers.keys()]).toEqual([])
})

test('the answer of a wrap comes when SQS has the settlement', async () => {
  const kit = setUp()
  let isAnswered = false
  const done = kit.handle([message('a')]).then(() => {
    isAnswered = true
  })
  await kit.clock.advance(0)
  kit.handed[0]?.settle({ kind: 'ack', by: 'processed' })
  await kit.clock.advance(19)
  expect([kit.recording.calls.length, isAnswered]).toEqual([0, false])
  expect(kit.handle.consumption.health().inFlight).toBe(1)
  await kit.clock.advance(1)
  await done
  expect([kit.recording.calls.length, isAnswered]).toEqual([1, true])
})

test('a drain of a wrap waits also for messages that are handed over meanwhile', async () => {
  const kit = setUp()
  const calls = [kit.handle([message('a')])]
  await kit.clock.advance(0)
  let isDrained = false
  const drained = kit.handle.consumption.drain().then(() => {
    isDrained = true
  })
  await kit.clock.advance(0)
  calls.push(kit.handle([message('b')]))
  kit.handed[0]?.settle({ kind: 'ack', by: 'processed' })
  await kit.clock.advance(100)
  expect([kit.handed.length, isDrained]).toEqual([2, false])
  kit.handed[1]?.settle({ kind: 'abandon', reason: 'closing' })
  await kit.clock.advance(100)
  await Promise.all([drained, ...calls])
})
