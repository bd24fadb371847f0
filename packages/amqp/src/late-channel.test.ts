import { expect, test } from 'vitest'
import { receiving } from './fixtures/receiving.ts'

// Red when a late channel takes the place of the one that consumes: its consumer could not be cancelled any more.
test('a channel that opens after its time is closed, and the consumer that has begun meanwhile stays', async () => {
  const kit = receiving()
  const first = kit.world.connection
  const late = Promise.withResolvers<void>()
  first.answers.set('createChannel', () => late.promise)
  const started = kit.receiver.start()
  await kit.clock.advance(30_000)
  await started
  const second = kit.reconnect()
  await kit.clock.advance(2_000)
  expect(second.consuming.callback).toBeDefined()
  expect(kit.receiver.outage).toBeUndefined()
  late.resolve()
  await kit.clock.advance(0)
  expect(first.named('close')).toHaveLength(1)
  kit.receiver.pump()
  await kit.clock.advance(0)
  expect(kit.calls.filter((call) => call === 'consume')).toHaveLength(1)
  // The old connection ends with its channel, which is no failure of the consumer.
  first.channels[0]?.emit('close')
  await kit.clock.advance(60_000)
  expect(kit.calls.filter((call) => call === 'consume')).toHaveLength(1)
  await kit.receiver.stop()
  expect(second.named('cancel')).toHaveLength(1)
})
