import { jetstream } from '@nats-io/jetstream'
import { ConfigurationError } from '@onceward/core'
import { until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type JetStream, startJetStream } from './fixtures/jetstream.ts'
import { natsMessage, wrapNats } from './index.ts'

let server: JetStream

beforeAll(async () => {
  server = await startJetStream()
})
afterAll(() => server[Symbol.asyncDispose]())

test('a loop of its own hands over what it fetches, and handlers see the message of the client', async () => {
  const stream = await server.open({}, { ack_wait: 1e9 })
  const runs: string[] = []
  const guard = guardOf((event) => {
    runs.push(`${event.payload.key} ${event.attempt}`)
    expect(natsMessage(event)?.subject).toBe(`${stream}.orders`)
    if (event.payload.key === 'late' && event.attempt === 1) throw new Error('not yet')
  })
  await server.send(stream, ['good', 'late'])
  const handle = wrapNats(server.connection, guard, { stream, consumer: 'billing' })
  const consumer = await jetstream(server.connection).consumers.get(stream, 'billing')
  const messages = await consumer.consume({ max_messages: 4 })
  const loop = (async () => {
    for await (const message of messages) void handle(message)
  })()
  await until(async () => (await server.unsettled(stream)) === 0)
  messages.stop()
  await loop
  await handle.consumption.drain()
  expect(runs.toSorted()).toEqual(['good 1', 'late 1', 'late 2'])
  expect(handle.consumption.health()).toMatchObject({ settleFailures: 0 })
})

test('what is no message of a pull consumer is refused before anything of its batch starts', async () => {
  const stream = await server.open({})
  const guard = guardOf(() => {
    throw new Error('started')
  })
  const handle = wrapNats(server.connection, guard, { stream, consumer: 'billing' })
  await expect(handle({ subject: 'core', data: new Uint8Array() } as never)).rejects.toThrow(
    ConfigurationError,
  )
  await handle.consumption.drain()
})
