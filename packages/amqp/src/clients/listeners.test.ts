import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test, vi } from 'vitest'
import { consumeAmqp } from '../consume.ts'
import { RecordingChannel, RecordingConnection } from '../fixtures/recording-channel.ts'
import { wrapAmqp } from '../wrap.ts'
import { listenTo } from './listeners.ts'

const ignore = (): void => undefined

test('the limit of an emitter rises with its listeners, and falls when they end', () => {
  const emitter = new RecordingConnection()
  const listen = () => listenTo(emitter.connection, { close: ignore })
  const ends = [listen(), listen()]
  expect([emitter.listenerCount('close'), emitter.getMaxListeners()]).toEqual([2, 12])
  for (const end of [...ends, ...ends]) end()
  expect([emitter.listenerCount('close'), emitter.getMaxListeners()]).toEqual([0, 10])
  emitter.setMaxListeners(0)
  listen()
  expect(emitter.getMaxListeners()).toBe(0)
})

// Red when the limit stays: Node writes that it found a memory leak.
test('twelve consumers on one connection, and twelve wraps on one channel, cause no warning of a leak', async () => {
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(ignore)
  const connection = new RecordingConnection()
  const channel = new RecordingChannel(connection)
  for (let n = 0; n < 12; n += 1) {
    const options = { queue: `orders-${n}`, deadLetter: { queue: 'dead' } }
    await consumeAmqp(connection.connection, handMadeGuard().guard, options)
    const made = handMadeGuard()
    channel.callback = wrapAmqp(channel as never, made.guard, { ...options, prefetch: 4 })
    // A dead letter is published on the channel.
    channel.deliver('a')
    await made.clock.advance(0)
    made.handed[0]?.settle({ kind: 'dead-letter', reason: 'fatal' })
    await made.clock.advance(0)
  }
  expect(connection.published()).toHaveLength(12)
  expect(warn.mock.calls.map(([warning]) => String(warning))).toEqual([])
  warn.mockRestore()
})

// Red when a wrap stays on its channel: ten kilobytes and one more log line for each error, with every queue that
// comes and goes.
test('a wrap that was drained leaves its channel as it was, but for one listener that keeps errors from the process', async () => {
  const connection = new RecordingConnection()
  const channel = new RecordingChannel(connection)
  const counts = (): readonly number[] => [
    ...['error', 'close', 'return'].map((event) => channel.listenerCount(event)),
    ...['blocked', 'unblocked'].map((event) => connection.listenerCount(event)),
    channel.getMaxListeners() + connection.getMaxListeners(),
  ]
  for (let n = 0; n < 5; n += 1) {
    const made = handMadeGuard()
    const options = { queue: `orders-${n}`, deadLetter: { queue: 'dead' }, prefetch: 4 }
    const wrapped = wrapAmqp(channel as never, made.guard, options)
    channel.callback = wrapped
    channel.deliver('a')
    await made.clock.advance(0)
    made.handed[0]?.settle({ kind: 'dead-letter', reason: 'fatal' })
    await made.clock.advance(0)
    expect(counts()).toEqual([n === 0 ? 2 : 3, 2, 1, 1, 1, n === 0 ? 23 : 24])
    const drained = wrapped.consumption.drain()
    await made.clock.advance(0)
    await drained
    expect(counts()).toEqual([1, 0, 0, 0, 0, 21])
  }
  expect(connection.published()).toHaveLength(5)
  channel.emit('error', new Error('406'))
})
