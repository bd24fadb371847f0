import { ConfigurationError } from '@onceward/core'
import { expect, test } from 'vitest'
import type { DeliveryChannel } from './clients/amqplib.ts'
import { type Receiving, receiving } from './fixtures/receiving.ts'
import { message } from './fixtures/recording-channel.ts'

const coded = (text: string, code: number): Error => Object.assign(new Error(text), { code })

/** The calls made meanwhile. */
async function during(kit: Receiving, what: () => unknown, ms = 0): Promise<readonly string[]> {
  const { length } = kit.calls
  await what()
  await kit.clock.advance(ms)
  return kit.calls.slice(length)
}

// Red when a queue that was declared again with other arguments is consumed as the one before.
test('a queue is looked at like a new one at the start, and after it was deleted', async () => {
  const kit = await receiving().started()
  const closed = async (error: Error): Promise<readonly boolean[]> => {
    const { consuming } = kit.world.connection
    consuming.emit('error', error)
    consuming.emit('close')
    await kit.clock.advance(60_000)
    return kit.checks
  }
  expect(kit.checks).toEqual([true])
  const old = kit.world.connection.consuming
  kit.reconnect()
  old.emit('close')
  await kit.clock.advance(60_000)
  expect(kit.checks).toEqual([true, false])
  expect(await closed(coded('NOT_FOUND', 404))).toEqual([true, false, true])
  kit.world.connection.consuming.callback?.(null)
  await kit.clock.advance(60_000)
  expect(kit.checks).toEqual([true, false, true, true])
})

test('a stop with no channel ends at once', async () => {
  const kit = receiving()
  kit.world.open = () => Promise.reject(coded('ECONNREFUSED', 0))
  await kit.started()
  expect(await during(kit, () => kit.receiver.stop())).toEqual([])
  // Nothing keeps the process alive.
  expect(kit.clock.timers).toBe(0)
  expect(await during(kit, () => kit.receiver.finish(), 60_000)).toEqual([])
})

// Red when a consumer that was stopped ends with an error, or says that it receives nothing now.
test.each([
  ['fails for good', new ConfigurationError('no queue')],
  ['fails', new Error('no')],
  ['succeeds while the store is down', undefined],
])('what %s after a stop is told to nobody', async (_, error) => {
  const kit = receiving()
  const opened = Promise.withResolvers<void>()
  kit.world.open = () => opened.promise
  const started = kit.receiver.start()
  await kit.clock.advance(0)
  kit.down(60_000)
  await kit.receiver.stop()
  if (error === undefined) opened.resolve()
  else opened.reject(error)
  await started
  await kit.clock.advance(60_000)
  expect([kit.ends, kit.logged, kit.receiver.outage]).toEqual([[], [], undefined])
})

test('a settlement that makes room for more is followed by another consumer', async () => {
  const kit = await receiving().started()
  kit.world.connection.consuming.deliver('a')
  kit.world.prefetches = [7, 3]
  const [deliveries] = kit.channels as [DeliveryChannel]
  expect(await during(kit, () => kit.receiver.settled(deliveries))).toEqual(['prefetch', 'consume'])
})

// Red when health says that all is well although no consumer is on the queue.
test('a channel that is lost while its consumer begins stays an outage', async () => {
  const kit = receiving()
  const begun = Promise.withResolvers<void>()
  const { connection } = kit.world
  connection.answers.set('consume', () => begun.promise)
  const started = kit.receiver.start()
  await kit.clock.advance(0)
  connection.channels[0]?.emit('close')
  begun.resolve()
  await started
  expect(kit.receiver.outage).toMatchObject({ state: 'recovering' })
  connection.answers.delete('consume')
  await kit.clock.advance(2_000)
  expect(kit.receiver.outage).toBeUndefined()
})

// amqplib reads several frames at once: a channel may be closed before the promise of its opening resolves.
test('a channel that was closed before anybody listened to it is replaced', async () => {
  const kit = receiving()
  const { connection } = kit.world
  connection.answers.set('prefetch', () => {
    throw new Error('Channel closed')
  })
  await kit.receiver.start()
  connection.answers.delete('prefetch')
  await kit.clock.advance(2_000)
  expect(kit.receiver.outage).toBeUndefined()
  expect(connection.channels.indexOf(connection.consuming)).toBe(1)
})

test('an own connection whose channel ends because the connection is closed is replaced', async () => {
  const kit = await receiving().started()
  const { consuming } = kit.world.connection
  const calls = await during(kit, () => {
    consuming.emit('error', new Error('Connection closed: by the server'))
    consuming.emit('close')
  })
  expect(calls).toEqual(['drop', 'discard'])
})

test('an own connection on which no channel opens, because it was reset, is replaced', async () => {
  const kit = receiving()
  kit.world.connection.answers.set('createChannel', () => {
    throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
  })
  await kit.receiver.start()
  expect(kit.calls.slice(-1)).toEqual(['discard'])
})

// Red when channels that are gone are kept: each would be closed again at the end, and is never let go.
test('a channel that waited for settlements is closed once', async () => {
  const kit = await receiving().started()
  const cancelled = async (): Promise<DeliveryChannel> => {
    kit.world.connection.consuming.deliver('a')
    const deliveries = kit.channels.at(-1) as DeliveryChannel
    kit.world.connection.consuming.callback?.(null)
    await kit.clock.advance(60_000)
    return deliveries
  }
  const settled = await cancelled()
  settled.ack(message('a', { deliveryTag: 1 }))
  expect(await during(kit, () => kit.receiver.settled(settled))).toEqual(['ack', 'close'])
  const lost = kit.world.connection.consuming
  await cancelled()
  lost.emit('close')
  expect(await during(kit, () => kit.receiver.finish())).toEqual(['close'])
})
