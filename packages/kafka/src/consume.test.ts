import { ConfigurationError, StoreUnavailableError } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import type { KafkaClient } from './client.ts'
import { consumeKafka } from './index.ts'

/** A client that must not be asked for anything. */
const asked = (): never => {
  throw new Error('asked for an admin or a consumer')
}
const untouched: KafkaClient = { admin: asked, consumer: asked }
const topics = ['orders']

test('invalid options and unusable stores make the start fail', async () => {
  const made = handMadeGuard()
  await expect(consumeKafka(untouched, made.guard, { topics: [] })).rejects.toThrow('`topics`')
  made.state.open = () => Promise.reject(new ConfigurationError('no tables'))
  await expect(consumeKafka(untouched, made.guard, { topics })).rejects.toThrow('no tables')
  expect(made.clock.timers).toBe(0)
  expect([...made.publishers]).toEqual([])
})

test('the consumer waits for a store that is down at the start, and stops if the tables do not fit', async () => {
  const made = handMadeGuard()
  made.state.open = () => Promise.reject(new StoreUnavailableError('injected'))
  const consumption = await consumeKafka(untouched, made.guard, { topics })
  expect(consumption.health()).toMatchObject({ state: 'paused', inFlight: 0 })
  expect(consumption.health().reason).toContain('injected')
  made.state.open = () => Promise.reject(new ConfigurationError('no tables'))
  const stopped = expect(consumption.stopped).rejects.toThrow('no tables')
  await made.clock.advance(2_000)
  await stopped
  const reason = 'ConfigurationError: no tables'
  expect(consumption.health()).toMatchObject({ state: 'stopped', reason })
})

test('a signal that is already aborted starts nothing', async () => {
  const { guard } = handMadeGuard()
  const signal = AbortSignal.abort()
  const consumption = await consumeKafka(untouched, guard, { topics, signal })
  await consumption.stopped
  expect(consumption.health().state).toBe('stopped')
})

test("dead letters are published for the guard's poller", async () => {
  const made = handMadeGuard()
  made.state.open = () => Promise.reject(new StoreUnavailableError('injected'))
  const deadLetter = { producer: { send: async () => [] }, topic: 'orders.dead' }
  const consumption = await consumeKafka(untouched, made.guard, { topics, deadLetter })
  expect([...made.publishers.keys()]).toEqual(topics)
  await consumption.drain()
  expect([...made.publishers.keys()]).toEqual([])
})

test('aborting the signal drains, and all drains share one promise', async () => {
  const made = handMadeGuard()
  made.state.open = () => Promise.reject(new StoreUnavailableError('injected'))
  const stop = new AbortController()
  const { signal } = stop
  const consumption = await consumeKafka(untouched, made.guard, { topics, signal })
  stop.abort()
  const drained = consumption.drain()
  expect(consumption.drain()).toBe(drained)
  await drained
  await consumption.stopped
  expect(made.clock.timers).toBe(0)
})

// Red before: the start was waited for, however long the store took to answer.
test('a signal that is aborted during the start ends the start', async () => {
  const made = handMadeGuard()
  made.state.open = () => new Promise(() => undefined)
  const stop = new AbortController()
  const starting = consumeKafka(untouched, made.guard, { topics, signal: stop.signal })
  await made.clock.advance(0)
  stop.abort()
  const consumption = await starting
  await consumption.stopped
  expect(consumption.health().state).toBe('stopped')
})
