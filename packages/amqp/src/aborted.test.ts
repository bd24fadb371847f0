import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import type { AmqpConnection } from './client.ts'
import { consumeAmqp } from './index.ts'

const queue = 'orders'
/** A connection that must not be opened. */
const untouched = (): Promise<AmqpConnection> => Promise.reject(new Error('opened a connection'))

test('a signal that is already aborted starts nothing', async () => {
  const { guard } = handMadeGuard()
  const consumption = await consumeAmqp(untouched, guard, { queue, signal: AbortSignal.abort() })
  await consumption.stopped
  expect(consumption.health().state).toBe('stopped')
})

// Red before: the start was waited for, however long the store took to answer.
test('a signal that is aborted during the start ends the start', async () => {
  const made = handMadeGuard()
  made.state.open = () => new Promise(() => undefined)
  const stop = new AbortController()
  const starting = consumeAmqp(untouched, made.guard, { queue, signal: stop.signal })
  await made.clock.advance(0)
  stop.abort()
  const consumption = await starting
  await consumption.stopped
  expect(consumption.health().state).toBe('stopped')
})
