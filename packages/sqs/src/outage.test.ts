import type { Message } from '@aws-sdk/client-sqs'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { consumeSqs } from './consume.ts'
import { message, RecordingClient } from './fixtures/recording-client.ts'

const queueUrl = 'http://127.0.0.1/000000000000/orders'

/** A queue whose messages return when their visibility is over, a store that can be down, and a guard that asks it. */
async function setUp(names: readonly string[], concurrency = 4) {
  const recording = new RecordingClient()
  const made = handMadeGuard({ concurrency })
  const { clock, state } = made
  const store = { isDown: false }
  const queue = names.map((name) => ({ message: message(name), visibleAtMs: 0, receives: 0 }))
  const hide = (handle: unknown, seconds: number): void => {
    const entry = queue.find((each) => each.message.ReceiptHandle === handle)
    if (entry !== undefined) entry.visibleAtMs = clock.nowMs + seconds * 1_000
  }
  const receive = (most: number): Message[] => {
    const visible = queue.filter(({ visibleAtMs }) => visibleAtMs <= clock.nowMs).slice(0, most)
    for (const entry of visible) {
      entry.visibleAtMs = clock.nowMs + 33_000
      entry.receives += 1
    }
    return visible.map((entry) => entry.message)
  }
  recording.answers.set('receive', async (input) => {
    const untilMs = clock.nowMs + Number(input['WaitTimeSeconds']) * 1_000
    let Messages = receive(Number(input['MaxNumberOfMessages']))
    while (Messages.length === 0 && clock.nowMs < untilMs) {
      await new Promise<void>((resolve) => void clock.runtime.setTimer(resolve, 500))
      Messages = receive(Number(input['MaxNumberOfMessages']))
    }
    return { Messages }
  })
  recording.answers.set('change', ({ Entries }) => {
    for (const entry of Entries as { ReceiptHandle: string; VisibilityTimeout: number }[]) {
      hide(entry.ReceiptHandle, entry.VisibilityTimeout)
    }
    return {}
  })
  recording.answers.set('delete', ({ Entries }) => {
    for (const { ReceiptHandle } of Entries as { ReceiptHandle: string }[]) {
      queue.splice(
        queue.findIndex((each) => each.message.ReceiptHandle === ReceiptHandle),
        1,
      )
    }
    return {}
  })
  state.decide = () => {
    if (!store.isDown) {
      state.availability = { kind: 'available' }
      return { kind: 'ack', by: 'processed' }
    }
    const retryAt = (clock.nowMs + 1_000) as never
    state.availability = { kind: 'down', retryAt, error: new Error('store') }
    return { kind: 'defer', reason: 'store-down', until: retryAt }
  }
  const start = () => consumeSqs(recording.client, made.guard, { queueUrl })
  return { ...made, recording, queue, store, start }
}

// Red when receiving continues during the outage, or when messages in hand are returned: the receive counts grow.
test('a store outage of one minute costs a message at most three receives', async () => {
  const kit = await setUp(Array.from({ length: 30 }, (_, index) => String(index)))
  kit.store.isDown = true
  const receives = kit.queue.map((entry) => entry)
  const consumption = await kit.start()
  await kit.clock.advance(60_000)
  expect(consumption.health()).toMatchObject({ state: 'paused', reason: 'Error: store' })
  kit.store.isDown = false
  await kit.clock.advance(3_000)
  expect(consumption.health().state).toBe('running')
  await kit.clock.advance(180_000)
  expect(kit.queue).toEqual([])
  expect(Math.max(...receives.map((entry) => entry.receives))).toBeLessThanOrEqual(3)
})

// Red when the pause of a message is compared with the clock: nothing else wakes up a full consumer.
test('a timer that fires a fraction early leaves no message waiting', async () => {
  const kit = await setUp(Array.from({ length: 30 }, (_, index) => String(index)))
  const { setTimer } = kit.clock.runtime
  const early: typeof setTimer = (callback, delayMs, options) =>
    setTimer(callback, Math.max(0, delayMs - 0.4), options)
  Object.assign(kit.clock.runtime, { setTimer: early })
  // By then enough are processed for the largest prefetch.
  const { decide } = kit.state
  kit.state.decide = (delivery) => {
    kit.store.isDown = kit.handed.length > 8
    return decide?.(delivery) ?? { kind: 'ack', by: 'processed' }
  }
  const consumption = await kit.start()
  await kit.clock.advance(200)
  expect(consumption.health()).toMatchObject({ state: 'paused', inFlight: 6 })
  kit.state.decide = decide
  kit.store.isDown = false
  kit.state.availability = { kind: 'available' }
  await kit.clock.advance(10_000)
  expect(kit.queue).toEqual([])
})

// Red when the message is handed over without a renewal: it would become visible while its handler runs.
test('a message that waited for the store stays hidden while its handler runs', async () => {
  const kit = await setUp(['a'])
  kit.store.isDown = true
  await kit.start()
  await kit.clock.advance(500)
  kit.state.decide = undefined
  kit.state.availability = { kind: 'available' }
  await kit.clock.advance(300_000)
  expect(kit.handed).toHaveLength(2)
  expect(kit.queue[0]?.receives).toBe(1)
  kit.handed[1]?.settle({ kind: 'ack', by: 'processed' })
  await kit.clock.advance(100)
  expect(kit.recording.deleted()).toEqual([['h-a']])
})
