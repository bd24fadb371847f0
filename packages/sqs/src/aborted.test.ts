import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import type { SqsClient } from './client.ts'
import { consumeSqs } from './index.ts'

const queueUrl = 'https://sqs.eu-central-1.amazonaws.com/123456789012/orders'

/** A client that must not be asked for anything. */
const untouched: SqsClient = {
  send: () => {
    throw new Error('asked for a request')
  },
}

test('a signal that is already aborted starts nothing', async () => {
  const { guard } = handMadeGuard()
  const consumption = await consumeSqs(untouched, guard, { queueUrl, signal: AbortSignal.abort() })
  await consumption.stopped
  expect(consumption.health().state).toBe('stopped')
})

// Red before: the start was waited for, however long the store took to answer.
test('a signal that is aborted during the start ends the start', async () => {
  const made = handMadeGuard()
  made.state.open = () => new Promise(() => undefined)
  const stop = new AbortController()
  const starting = consumeSqs(untouched, made.guard, { queueUrl, signal: stop.signal })
  await made.clock.advance(0)
  stop.abort()
  const consumption = await starting
  await consumption.stopped
  expect(consumption.health().state).toBe('stopped')
})
