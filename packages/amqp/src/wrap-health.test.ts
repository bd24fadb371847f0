import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { RecordingChannel, RecordingConnection } from './fixtures/recording-channel.ts'
import { wrapAmqp } from './wrap.ts'

const queue = 'orders'

function setUp() {
  const connection = new RecordingConnection()
  const channel = new RecordingChannel(connection)
  const made = handMadeGuard({ concurrency: 4 })
  const given = { queue, deadLetter: { queue: 'orders.dead' }, prefetch: 4 }
  const wrapped = wrapAmqp(channel as never, made.guard, given)
  channel.callback = wrapped
  const until = (afterMs: number) => (made.clock.nowMs + afterMs) as never
  return { ...made, connection, channel, wrapped, until }
}

// Red when only the log tells of it: nothing is wrong with the process, and no message ever comes.
test('trap B12: a wrap whose consumer the server cancels is stopped, and its error says what to do', async () => {
  const kit = setUp()
  const { consumption } = kit.wrapped
  kit.channel.deliver('a')
  await kit.clock.advance(0)
  kit.channel.callback?.(null)
  const reason = expect.stringMatching(
    /cancelled by the server.*call `channel.consume\(queue, wrapped\)` again/,
  )
  expect(kit.logged).toMatchObject([{ level: 'error', fields: { queue, reason } }])
  expect(consumption.health()).toMatchObject({ state: 'stopped', reason, inFlight: 1 })
  // The store is down too, but its return would change nothing.
  kit.state.availability = { kind: 'down', retryAt: kit.until(1_000), error: new Error('gone') }
  expect(consumption.health()).toMatchObject({ state: 'stopped', reason })
  kit.state.availability = { kind: 'available' }
  kit.handed[0]?.settle({ kind: 'ack', by: 'processed' })
  await kit.clock.advance(0)
  expect(kit.connection.settled()).toEqual([['ack', 1, false]])
  // Its user has consumed again.
  kit.channel.deliver('b')
  expect(consumption.health()).toMatchObject({ state: 'running' })
})

test('a wrap whose channel closes is stopped, and an error of the channel is logged', () => {
  const kit = setUp()
  kit.channel.emit('error', new Error('404'))
  kit.channel.emit('close')
  expect(kit.logged.map(({ fields }) => fields['reason'])).toEqual(['Error: 404'])
  expect(kit.wrapped.consumption.health()).toMatchObject({
    state: 'stopped',
    reason: expect.stringContaining('Open another, and wrap and consume again'),
  })
})

test('trap B5: a wrap publishes nothing while the broker blocks its connection, and holds what waits', async () => {
  const kit = setUp()
  const { consumption } = kit.wrapped
  kit.connection.emit('blocked', 'low on memory')
  expect(consumption.health()).toMatchObject({
    state: 'recovering',
    reason: expect.stringMatching(/blocks publishers: low on memory; .* acks of this connection/),
  })
  kit.state.decide = () => ({ kind: 'defer', reason: 'failed', until: kit.until(60_000) })
  kit.channel.deliver('a')
  await kit.clock.advance(60_000)
  expect([kit.connection.published(), kit.connection.settled()]).toEqual([[], []])
  expect(consumption.health().inFlight).toBe(1)
  kit.connection.emit('unblocked')
  expect(consumption.health().state).toBe('running')
  await kit.clock.advance(30_000)
  expect(kit.connection.published()).toHaveLength(1)
  expect(kit.connection.settled()).toEqual([['ack', 1, false]])
  const drained = consumption.drain()
  await kit.clock.advance(0)
  await drained
  expect(kit.connection.eventNames()).toEqual([])
})

test('health reports the store and the unsettled messages, and a drain starts nothing more', async () => {
  const kit = setUp()
  const { consumption } = kit.wrapped
  expect(consumption.health()).toEqual({ state: 'running', inFlight: 0, settleFailures: 0 })
  const error = new Error('no route to the database')
  kit.state.availability = { kind: 'down', retryAt: kit.until(1_000), error }
  expect(consumption.health()).toMatchObject({ state: 'paused', reason: `Error: ${error.message}` })
  kit.state.availability = { kind: 'available' }

  kit.channel.deliver('a')
  await kit.clock.advance(0)
  const drained = consumption.drain()
  kit.channel.deliver('late')
  expect(consumption.health()).toMatchObject({ state: 'draining', inFlight: 2 })
  expect([kit.hooks[0]?.stop?.aborted, kit.hooks[0]?.abort?.aborted]).toEqual([true, false])
  await kit.clock.advance(20_000)
  expect(kit.hooks[0]?.abort?.aborted).toBe(true)
  kit.handed[0]?.settle({ kind: 'ack', by: 'processed' })
  await kit.clock.advance(100)
  await drained
  expect(kit.connection.settled()).toEqual([['ack', 1, false]])
  // The late message stays unacked: it is the broker's again when the user closes the channel.
  expect(kit.handed).toHaveLength(1)
  expect(consumption.health()).toMatchObject({ state: 'stopped', inFlight: 0 })
  expect([kit.publishers.size, kit.clock.timers]).toEqual([0, 0])
})

// Red when only a settlement counts: metrics have no idle time of a wrap whose first handlers hang, and a long one of a
// wrap that gets a message after a quiet hour.
test('a message that comes is progress', async () => {
  const kit = setUp()
  const { consumption } = kit.wrapped
  expect(consumption.health().lastProgressAt).toBeUndefined()
  kit.channel.deliver('a')
  expect(consumption.health()).toMatchObject({
    inFlight: 1,
    lastProgressAt: new Date(kit.clock.nowMs),
  })
  await kit.clock.advance(5_000)
  kit.channel.deliver('b')
  expect(consumption.health().lastProgressAt).toEqual(new Date(kit.clock.nowMs))
  await kit.clock.advance(5_000)
  kit.handed[0]?.settle({ kind: 'ack', by: 'processed' })
  await kit.clock.advance(0)
  expect(consumption.health().lastProgressAt).toEqual(new Date(kit.clock.nowMs))
})

test('a wrap whose messages cannot be deferred says why', async () => {
  const kit = setUp()
  kit.connection.answers.set('publish', () => new Error('message nacked'))
  kit.channel.deliver('a')
  await kit.clock.advance(0)
  kit.handed[0]?.settle({ kind: 'defer', reason: 'failed', until: kit.until(60_000) })
  await kit.clock.advance(0)
  expect(kit.wrapped.consumption.health()).toMatchObject({
    state: 'recovering',
    reason: 'messages cannot be deferred and are held: Error: message nacked',
  })
})
