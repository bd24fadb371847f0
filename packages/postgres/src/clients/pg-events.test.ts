import { EventEmitter } from 'node:events'
import { turn } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { alwaysSurviveLoss, surviveLoss, survivePoolLosses } from './pg-events.ts'

/** Whether an error ends the process: Node throws where nobody listens. */
function endsProcess(emitter: EventEmitter): boolean {
  try {
    emitter.emit('error', new Error('Connection terminated unexpectedly'))
    return false
  } catch {
    return true
  }
}

test('a lost connection does not end the process until its user gives it back', () => {
  const client = new EventEmitter()
  expect(endsProcess(client)).toBe(true)
  const undo = surviveLoss(client)
  expect(endsProcess(client)).toBe(false)
  undo()
  expect(endsProcess(client)).toBe(true)
})

test('what is listened to for good is listened to once', () => {
  const client = new EventEmitter()
  for (const _ of ['first', 'again']) alwaysSurviveLoss(client)
  expect(endsProcess(client)).toBe(false)
  expect(client.listenerCount('error')).toBe(1)
})

test('a pool that loses connections does not end the process, while they connect neither', async () => {
  const [pool, client] = [new EventEmitter(), new EventEmitter()]
  for (const _ of ['first', 'again']) survivePoolLosses(pool)
  expect(endsProcess(pool)).toBe(false)
  expect(pool.listenerCount('error')).toBe(1)
  pool.emit('connect', client)
  expect(endsProcess(client)).toBe(false)
  await turn()
  // From here on its user listens.
  expect(endsProcess(client)).toBe(true)
})

test.each([
  ['no events', {}],
  ['only `on`', { on: () => undefined }],
  ['only `removeListener`', { removeListener: () => undefined }],
])('a client of PostgreSQL that has %s is left alone', (_, client) => {
  surviveLoss(client)()
  survivePoolLosses(client)
  alwaysSurviveLoss(client)
})
