import { expect, test } from 'vitest'
import { ack, dispatching } from './fixtures/dispatching.ts'

const CONSUMER_TIMEOUT_MS = 1_800_000

test('a message whose dead letter cannot be published during a drain goes back to its queue', async () => {
  const kit = dispatching({}, { deadLetter: { exchange: 'dead', routingKey: 'a' } })
  kit.take(['a'])
  await kit.clock.advance(0)
  kit.stop.abort()
  kit.published.now = Promise.reject(new Error('no confirm'))
  kit.settle('a', { kind: 'dead-letter', reason: 'fatal' } as never)
  await kit.clock.advance(0)
  expect(kit.connection.settled()).toEqual([['nack', 1, false, true]])
  expect([kit.dispatcher.inFlight, kit.clock.timers]).toEqual([0, 0])
})

test.each([undefined, { exchange: 'dead', routingKey: 'a' }])(
  'the guard is told whether a dead letter has a place besides its row: %j',
  async (deadLetter) => {
    const kit = dispatching({}, { deadLetter })
    kit.take(['a'])
    await kit.clock.advance(0)
    expect(kit.hooks[0]?.hasDeadLetterPlace).toBe(deadLetter !== undefined)
  },
)

test('a message whose settlement the broker has not confirmed is in flight', async () => {
  const kit = dispatching()
  const confirm = Promise.withResolvers<void>()
  kit.published.now = confirm.promise
  kit.take(['a'])
  await kit.clock.advance(0)
  kit.settle('a', kit.later('failed', 60_000))
  await kit.clock.advance(0)
  expect([kit.connection.settled(), kit.dispatcher.inFlight]).toEqual([[], 1])
  confirm.resolve()
  await kit.clock.advance(0)
  expect([kit.connection.settled(), kit.dispatcher.inFlight]).toEqual([[['ack', 1, false]], 0])
})

test('a later message of an ordering key that has a slot starts although no slot is free', async () => {
  const kit = dispatching({ concurrency: 2 })
  kit.take(['a1', 'b1', 'a2', 'c1'])
  await kit.clock.advance(0)
  expect(kit.batches).toEqual([3])
  expect(kit.run().toSorted()).toEqual(['a1', 'a2', 'b1'])
})

// Red when each new message begins the look anew: the server closes the channel with all messages in hand.
test('what waits too long is given back although other messages keep coming', async () => {
  const deadlineMs = 60_000
  const kit = dispatching({ concurrency: 1, deadlineMs })
  kit.take(['a', 'old'])
  kit.clock.asked.length = 0
  for (let waitedMs = 0; waitedMs < CONSUMER_TIMEOUT_MS - deadlineMs; waitedMs += 10_000) {
    kit.take([`new-${waitedMs}`])
    await kit.clock.advance(10_000)
  }
  expect(kit.connection.settled()[0]).toEqual(['nack', 2, false, true])
  expect(kit.settled[0]).toBe(kit.channel)
  // The look does not keep the process alive.
  expect(new Set(kit.clock.asked.map(({ keepAlive }) => keepAlive))).toEqual(new Set([false]))
})

test('with its last unstarted message a channel takes the look at their ages along', async () => {
  const kit = dispatching({ concurrency: 1 })
  const other = kit.newChannel()
  kit.take(['a'])
  await kit.clock.advance(0)
  kit.take(['b'], other)
  await kit.clock.advance(0)
  expect(kit.clock.timers).toBe(1)
  other.closed()
  kit.dispatcher.drop(other)
  expect(kit.clock.timers).toBe(0)
  kit.settle('a', ack)
  await kit.clock.advance(0)
  expect(kit.run()).toEqual(['a'])
})

test('messages that waited for their order leave with their channel, and so does the room that was made for them', async () => {
  const kit = dispatching({ concurrency: 4 }, { prefetch: undefined })
  kit.take(['quick'])
  await kit.clock.advance(0)
  kit.settle('quick')
  kit.take(['a1'])
  await kit.clock.advance(0)
  kit.take(['a2', 'a3', 'a4'])
  await kit.clock.advance(0)
  expect(kit.dispatcher.prefetches).toEqual([4, 2, 2])
  kit.channel.closed()
  kit.dispatcher.drop(kit.channel)
  await kit.clock.advance(1_000)
  expect(kit.dispatcher.prefetches).toEqual([4, 2])
})

// Red when a full prefetch waits as well: the broker sends nothing more, so the batch waits in vain.
test('a batch waits for more messages only while the prefetch has room for one', async () => {
  const guard = { concurrency: 1, transaction: 'batch' } as const
  const kit = dispatching(guard, { prefetch: 3, batch: { size: 3, lingerMs: 10 } })
  expect(kit.dispatcher.prefetches).toEqual([3])
  kit.take(['a', 'b', 'c'])
  await kit.clock.advance(0)
  // One of three may be held for its retry time.
  kit.settle('a', kit.later('failed', 1_000))
  for (const name of ['b', 'c']) kit.settle(name)
  kit.take(['d'])
  await kit.clock.advance(0)
  expect([kit.dispatcher.inFlight, kit.batches]).toEqual([2, [3]])
  kit.take(['e'])
  await kit.clock.advance(0)
  expect([kit.dispatcher.inFlight, kit.batches]).toEqual([3, [3, 2]])
})
