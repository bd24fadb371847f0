import type { Settlement } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { consumeAmqp } from './consume.ts'
import { consuming } from './fixtures/consuming.ts'
import { RecordingConnection } from './fixtures/recording-channel.ts'

const ack: Settlement = { kind: 'ack', by: 'processed' }
const closing: Settlement = { kind: 'abandon', reason: 'closing' }

test('a drain finishes and settles running handlers, and returns unstarted messages at once', async () => {
  const { consumption, connection, handed, hooks, clock } = await consuming({}, { concurrency: 2 })
  connection.consuming.deliver('a', 'b', 'c', 'd')
  await clock.advance(0)
  const drained = consumption.drain()
  expect(consumption.health().state).toBe('draining')
  expect(hooks[0]?.stop?.aborted).toBe(true)
  expect(hooks[0]?.abort?.aborted).toBe(false)
  handed[1]?.settle(closing)
  await clock.advance(100)
  const names = connection.named('cancel', 'nack').map(({ name }) => name)
  expect(names).toEqual(['cancel', 'nack', 'nack', 'nack'])
  expect(connection.settled()).toEqual(
    expect.arrayContaining([2, 3, 4].map((tag) => ['nack', tag, false, true])),
  )
  handed[0]?.settle(ack)
  await clock.advance(100)
  await drained
  await consumption.stopped
  expect(connection.settled().at(-1)).toEqual(['ack', 1, false])
  expect(connection.calls.slice(-2).map(({ name }) => name)).toEqual(['close', 'connection.close'])
  expect(consumption.health()).toMatchObject({ state: 'stopped', inFlight: 0 })
  expect(clock.timers).toBe(0)
})

test('a drain aborts the signals of handlers that exceed the drain time', async () => {
  const { consumption, connection, hooks, handed, clock } = await consuming()
  connection.consuming.deliver('a')
  await clock.advance(0)
  const drained = consumption.drain()
  await clock.advance(5_000)
  expect(hooks[0]?.abort?.aborted).toBe(true)
  await clock.advance(2_000)
  await drained
  // The message returned with its channel. A settlement on a closed channel would be an error.
  handed[0]?.settle(ack)
  await clock.advance(0)
  expect(connection.settled()).toEqual([])
  expect(consumption.health().settleFailures).toBe(1)
})

test('the message of a handler that fails during a drain goes to a delay queue, not back at once', async () => {
  const { consumption, connection, handed, clock, until } = await consuming()
  connection.consuming.deliver('a')
  await clock.advance(0)
  const drained = consumption.drain()
  handed[0]?.settle({ kind: 'defer', reason: 'failed', until: until(100) })
  await clock.advance(100)
  await drained
  expect(connection.published()).toMatchObject([{ routingKey: 'orders.retry.1000' }])
  expect(connection.settled()).toEqual([['ack', 1, false]])
})

test('a drain returns held messages at once', async () => {
  const { consumption, connection, handed, clock, until } = await consuming()
  connection.consuming.deliver('a')
  await clock.advance(0)
  handed[0]?.settle({ kind: 'defer', reason: 'in-progress', until: until(4_000) })
  await clock.advance(0)
  await consumption.drain()
  expect(connection.settled()).toEqual([['nack', 1, false, true]])
  expect(clock.timers).toBe(0)
})

test('a drain ends although the broker does not answer', async () => {
  const { consumption, connection, clock } = await consuming()
  for (const name of ['cancel', 'close', 'connection.close']) {
    connection.answers.set(name, () => new Promise(() => undefined))
  }
  const drained = consumption.drain()
  await clock.advance(10_000)
  await drained
  expect(clock.timers).toBe(0)
})

test('aborting the signal drains, and all drains share one promise', async () => {
  const stop = new AbortController()
  const { consumption, connection } = await consuming({ signal: stop.signal })
  stop.abort()
  const drained = consumption.drain()
  expect(consumption.drain()).toBe(drained)
  await drained
  await consumption.stopped
  expect(connection.named('cancel')).toHaveLength(1)
})

test('after a drain no channel is open on a connection of the user, also none for publishing', async () => {
  const { guard, clock, handed } = handMadeGuard()
  const connection = new RecordingConnection()
  const consumption = await consumeAmqp(connection.connection, guard, { queue: 'orders' })
  connection.consuming.deliver('a')
  await clock.advance(0)
  const until = (clock.nowMs + 60_000) as never
  handed[0]?.settle({ kind: 'defer', reason: 'failed', until })
  await clock.advance(0)
  expect(connection.named('createConfirmChannel')).toHaveLength(1)
  await consumption.drain()
  expect(connection.named('close')).toHaveLength(connection.channels.length)
  expect(connection.named('connection.close')).toEqual([])
})
