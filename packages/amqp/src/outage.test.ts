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
  expect(connection.named('cancel')).toHaveLength(1)
  expect(consumption.health()).toMatchObject({ state: 'paused', inFlight: 2 })
  expect(consumption.health().reason).toContain('gone')
  await clock.advance(10_000)
  state.availability = { kind: 'available' }
  await clock.advance(1_000)
  expect(connection.named('consume')).toHaveLength(2)
  expect(handed).toHaveLength(4)
  expect(connection.settled()).toEqual([])
})

test('the next message probes a store that is down, if no message is in hand', async () => {
  const { connection, handed, clock, state, until } = await consuming()
  connection.consuming.deliver('a')
  await clock.advance(0)
  state.availability = { kind: 'down', retryAt: until(5_000), error: new Error('gone') }
  handed[0]?.settle(ack)
  await clock.advance(0)
  expect(connection.named('cancel')).toHaveLength(1)
  await clock.advance(6_000)
  expect(connection.named('consume')).toHaveLength(2)
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
