import { ConfigurationError, type Settlement, StoreUnavailableError } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { consumeAmqp } from './consume.ts'
import { consuming } from './fixtures/consuming.ts'
import { RecordingConnection } from './fixtures/recording-channel.ts'

const queue = 'orders'
const ack: Settlement = { kind: 'ack', by: 'processed' }

test('messages in hand during a store outage run again as soon as the store is back', async () => {
  const { consumption, connection, handed, clock, state, until } = await consuming()
  connection.consuming.deliver('a', 'b')
  await clock.advance(0)
  const error = new StoreUnavailableError('gone')
  state.availability = { kind: 'down', retryAt: until(30_000), error }
  for (const each of handed)
    each.settle({ kind: 'defer', reason: 'store-down', until: until(30_000) })
  await clock.advance(0)
  const names = connection.named('consume', 'cancel').map(({ name }) => name)
  expect(names.at(-1)).toBe('consume')
  expect(consumption.health()).toMatchObject({ state: 'paused', inFlight: 2 })
  expect(consumption.health().reason).toContain('gone')
  await clock.advance(10_000)
  state.availability = { kind: 'available' }
  await clock.advance(1_000)
  expect(handed).toHaveLength(4)
  expect(connection.settled()).toEqual([])
})

test('health reports a broker that blocks publishers, and nothing is published meanwhile', async () => {
  const { consumption, connection, handed, clock, until } = await consuming()
  connection.emit('blocked', 'low on memory')
  expect(consumption.health()).toMatchObject({ state: 'recovering' })
  expect(consumption.health().reason).toContain('low on memory')
  connection.consuming.deliver('a')
  await clock.advance(0)
  handed[0]?.settle({ kind: 'defer', reason: 'failed', until: until(60_000) })
  await clock.advance(0)
  expect(connection.published()).toEqual([])
  expect(consumption.health().inFlight).toBe(1)
  connection.emit('unblocked')
  expect(consumption.health().state).toBe('running')
})

// Red when publishing shares the consuming connection: the broker reads no acks on it until its alarm ends.
test('trap B5: messages are published on a connection of their own, which is opened when the first one is', async () => {
  const made = handMadeGuard()
  const connections: RecordingConnection[] = []
  const source = async () => {
    const connection = new RecordingConnection()
    connections.push(connection)
    return connection.connection
  }
  const consumption = await consumeAmqp(source, made.guard, { queue })
  expect(connections).toHaveLength(1)
  const at = (afterMs: number) => (made.clock.nowMs + afterMs) as never
  made.state.decide = () => ({ kind: 'defer', reason: 'failed', until: at(60_000) })
  connections[0]?.consuming.deliver('a')
  await made.clock.advance(0)
  const [consuming, publishing] = connections as [RecordingConnection, RecordingConnection]
  expect([consuming.published().length, publishing.published().length]).toEqual([0, 1])
  publishing.emit('blocked', 'low on disk')
  expect(consumption.health()).toMatchObject({
    state: 'recovering',
    reason:
      'the broker blocks publishers: low on disk; what must be published waits in hand, and consuming goes on',
  })
  made.state.decide = () => ack
  consuming.consuming.deliver('b')
  await made.clock.advance(0)
  expect(consuming.settled()).toHaveLength(2)
  // Its loss ends the alarm, and the next message opens another.
  publishing.emit('close')
  publishing.channels[0]?.emit('close')
  expect(consumption.health()).toMatchObject({ state: 'running' })
  made.state.decide = () => ({ kind: 'defer', reason: 'failed', until: at(60_000) })
  consuming.consuming.deliver('c')
  await made.clock.advance(0)
  expect(connections[2]?.published()).toHaveLength(1)
  await consumption.drain()
  const ends = connections.map((each) => each.named('connection.close').length)
  expect(ends).toEqual([1, 0, 1])
})

test('a connection of the user publishes too, and health says what that means in an alarm', async () => {
  const made = handMadeGuard()
  const connection = new RecordingConnection()
  const consumption = await consumeAmqp(connection.connection, made.guard, { queue })
  connection.emit('blocked', 'low on memory')
  expect(consumption.health().reason).toMatch(/low on memory; it does not read the acks/)
  await consumption.drain()
  expect(connection.eventNames()).toEqual([])
})

// Red when a channel that never opens is waited for by each later message.
test('a connection for publishing that does not answer is replaced', async () => {
  const made = handMadeGuard()
  const connections: RecordingConnection[] = []
  const source = async () => {
    const connection = new RecordingConnection()
    connections.push(connection)
    if (connections.length === 2) {
      connection.createConfirmChannel = () => new Promise(() => undefined)
    }
    return connection.connection
  }
  await using _ = await consumeAmqp(source, made.guard, { queue })
  const at = (afterMs: number) => (made.clock.nowMs + afterMs) as never
  made.state.decide = () => ({ kind: 'defer', reason: 'failed', until: at(60_000) })
  connections[0]?.consuming.deliver('a')
  await made.clock.advance(50_000)
  expect(connections[1]?.named('connection.close')).toHaveLength(1)
  expect(connections[2]?.published()).toHaveLength(1)
})

test('a closed channel is replaced on the same connection, after pauses that grow', async () => {
  const { consumption, connection, clock, opened } = await consuming()
  connection.answers.set('consume', () => {
    throw Object.assign(new Error('404 no queue'), { code: 404 })
  })
  const refused: number[] = []
  connection.consuming.emit('close')
  let before = connection.named('consume').length
  for (let elapsedMs = 0; elapsedMs < 60_000; elapsedMs += 250) {
    await clock.advance(250)
    const count = connection.named('consume').length
    if (count > before) refused.push(elapsedMs)
    before = count
  }
  expect(refused.length).toBeGreaterThan(8)
  expect(refused.length).toBeLessThan(40)
  expect(consumption.health()).toMatchObject({ state: 'recovering' })
  connection.answers.delete('consume')
  await clock.advance(6_000)
  expect(consumption.health().state).toBe('running')
  expect(opened).toHaveLength(1)
})

test('the connection function is called again if it fails or if its connection is lost', async () => {
  const made = handMadeGuard()
  const connection = new RecordingConnection()
  let calls = 0
  const source = async () => {
    calls += 1
    if (calls === 1)
      throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
    return connection.connection
  }
  const consumption = await consumeAmqp(source, made.guard, { queue })
  expect(consumption.health()).toMatchObject({ state: 'recovering' })
  await made.clock.advance(2_000)
  expect(consumption.health().state).toBe('running')
  connection.emit('error', new Error('read ECONNRESET'))
  connection.consuming.emit('close')
  connection.emit('close', new Error('read ECONNRESET'))
  expect(consumption.health()).toMatchObject({ state: 'recovering' })
  await made.clock.advance(2_000)
  expect(calls).toBe(3)
  expect(consumption.health().state).toBe('running')
})

test('the consumer waits for a store that is down at the start, and stops if the tables do not fit', async () => {
  const made = handMadeGuard()
  const connection = new RecordingConnection()
  made.state.open = () => Promise.reject(new StoreUnavailableError('gone'))
  const consumption = await consumeAmqp(async () => connection.connection, made.guard, { queue })
  expect(consumption.health()).toMatchObject({ state: 'paused' })
  expect(consumption.health().reason).toContain('gone')
  expect(connection.calls).toEqual([])
  made.state.open = () => Promise.reject(new ConfigurationError('no tables'))
  const stopped = expect(consumption.stopped).rejects.toThrow('no tables')
  await made.clock.advance(10_000)
  await stopped
})
