import { expect, test } from 'vitest'
import { fetchOf } from './fixtures/fetch.ts'
import { records } from './fixtures/member.ts'
import { setUp } from './fixtures/wrapping.ts'

test('health tells of the group, the store and the records in hand', async () => {
  const kit = setUp()
  const { consumption } = kit
  const bare = { inFlight: 0, settleFailures: 0 }
  const reason = 'the consumer has not joined its group'
  const outages = [{ dependency: 'broker', reason }]
  expect(consumption.health()).toEqual({ state: 'recovering', reason, outages, ...bare })
  kit.join()
  const lastProgressAt = expect.any(Date)
  expect(consumption.health()).toEqual({ state: 'running', lastProgressAt, ...bare })
  const error = new Error('no route to the database')
  kit.state.availability = { kind: 'down', retryAt: (kit.clock.nowMs + 1_000) as never, error }
  expect(consumption.health()).toMatchObject({ state: 'paused', reason: `Error: ${error.message}` })
  kit.state.availability = { kind: 'available' }
  await kit.clock.advance(1_001)
  void kit.call(fetchOf(records('a', 'b')))
  await kit.clock.advance(0)
  expect(consumption.health()).toMatchObject({ state: 'running', inFlight: 2 })
  kit.settle(40)
  await kit.clock.advance(0)
  const { inFlight, lastProgressAt: at } = consumption.health()
  expect([inFlight, at?.getTime()]).toEqual([1, kit.clock.nowMs])
})

// Red when health is silent: nothing but a restart, which repeats everything, shows that no offset was committed.
test('health tells of offsets that cannot be committed, as long as they wait', async () => {
  const kit = setUp()
  kit.join()
  const fetch = fetchOf(records('a'))
  fetch.broker.commit = new Error('Request timed out')
  void kit.call(fetch)
  await kit.clock.advance(0)
  expect(kit.consumption.health().reason).toBeUndefined()
  kit.settle(40)
  await kit.clock.advance(1_000)
  const reason = 'offsets are not committed: Error: Request timed out'
  expect(kit.consumption.health()).toMatchObject({ state: 'running', reason, settleFailures: 1 })
  fetch.broker.commit = undefined
  kit.emit('FETCH')
  await kit.clock.advance(1_000)
  expect(kit.consumption.health()).toMatchObject({ state: 'running', inFlight: 0 })
  expect(kit.consumption.health().reason).toBeUndefined()
})

// Red when only the log of kafkajs tells of it: nothing is wrong with the process, and no record ever comes.
test('a consumer that kafkajs has ended is stopped, and one that it restarts recovers', () => {
  const kit = setUp()
  const { consumption } = kit
  kit.join()
  kit.emit('CRASH', { error: new Error('gone'), restart: true })
  expect(consumption.health()).toMatchObject({ state: 'recovering', reason: 'Error: gone' })
  kit.join()
  expect(consumption.health().state).toBe('running')
  kit.emit('CRASH', { error: new Error('for good'), restart: false })
  const ended = expect.stringMatching(/^Error: for good; .*create a new one/)
  expect(consumption.health()).toMatchObject({ state: 'stopped', reason: ended })
  // kafkajs also stops and disconnects what it has ended.
  kit.emit('STOP')
  kit.emit('DISCONNECT')
  // The store is down too, but its return would change nothing.
  const retryAt = (kit.clock.nowMs + 1_000) as never
  kit.state.availability = { kind: 'down', retryAt, error: new Error('no route') }
  expect(consumption.health()).toMatchObject({ state: 'stopped', reason: ended })
})

// Red when only the broker's answers count: after a lost join they go on, and no record of the partitions is read.
test('a join that does not come is told in health and in the log, once, until it comes', async () => {
  const kit = setUp()
  kit.join()
  kit.emit('REBALANCING')
  const beat = async (times: number): Promise<void> => {
    for (let time = 0; time < times; time += 1) {
      await kit.clock.advance(1_000)
      kit.emit('HEARTBEAT', { groupGenerationId: 2 })
    }
  }
  await beat(89)
  expect([kit.consumption.health().state, kit.logged]).toEqual(['running', []])
  await beat(60)
  const reason = expect.stringMatching(/A heartbeat of its group got no answer within 90000 ms/)
  expect(kit.consumption.health()).toMatchObject({ state: 'recovering', reason })
  expect(kit.logged).toMatchObject([{ level: 'warn', fields: { reason } }])
  kit.join()
  expect(kit.consumption.health().state).toBe('running')
})

test('a broker that does not answer is told in health until it does', async () => {
  const kit = setUp()
  kit.join()
  for (const _ of ['first', 'second']) {
    await kit.clock.advance(90_000)
    const reason = expect.stringMatching(/A heartbeat of its group got no answer/)
    expect(kit.consumption.health()).toMatchObject({ state: 'recovering', reason })
    // The broker may have forgotten the member.
    kit.emit('FETCH')
    expect(kit.consumption.health().state).toBe('recovering')
    kit.emit('HEARTBEAT', { groupGenerationId: 1 })
    expect(kit.consumption.health().state).toBe('running')
  }
  await kit.clock.advance(90_000)
  kit.emit('CRASH', { error: new Error('for good'), restart: false })
  // The answer to a request from before.
  kit.emit('FETCH')
  await kit.clock.advance(90_000)
  expect([kit.consumption.health().state, kit.clock.timers]).toEqual(['stopped', 0])
})

test('a drain starts nothing more, lets handlers end, commits what they did and lets go of everything', async () => {
  const kit = setUp()
  const { consumption } = kit
  kit.join()
  expect([...kit.publishers.keys()]).toHaveLength(1)
  await kit.clock.advance(1_001)
  const fetch = fetchOf(records('a', 'b', 'c'))
  const returned = kit.call(fetch)
  await kit.clock.advance(0)
  const drained = consumption.drain()
  expect(consumption.health().state).toBe('draining')
  await kit.clock.advance(0)
  expect([kit.hooks[0]?.stop?.aborted, kit.hooks[0]?.abort?.aborted]).toEqual([true, false])
  await kit.clock.advance(20_000)
  expect(kit.hooks[0]?.abort?.aborted).toBe(true)
  kit.settle(40)
  // The guard gives back what it has not started.
  for (const offset of [41, 42]) kit.settle(offset, { kind: 'abandon', reason: 'closing' })
  await kit.clock.advance(1_000)
  await Promise.all([drained, returned])
  expect(fetch.calls.at(-1)).toBe('commit 41')
  expect(consumption.health()).toMatchObject({ state: 'stopped', inFlight: 0, settleFailures: 0 })
  expect([kit.publishers.size, kit.clock.timers]).toEqual([0, 0])
  expect(consumption.drain()).toBe(drained)
})

// Red when nobody looks: the records in hand are lost in a crash, and nothing ever said so.
test('an offset that was committed past records in hand is logged, once', async () => {
  const kit = setUp()
  kit.join()
  void kit.call(fetchOf(records('a', 'b')))
  await kit.clock.advance(0)
  const commit = (offset: string, topic = 'orders'): void =>
    kit.emit('COMMIT_OFFSETS', { topics: [{ topic, partitions: [{ partition: '0', offset }] }] })
  commit('40')
  commit('42', 'refunds')
  const errors = () => kit.logged.filter(({ level }) => level === 'error')
  expect(errors()).toEqual([])
  for (const offset of ['41', '42']) commit(offset)
  expect(errors().map(({ fields, text }) => [fields['topic'], fields['offset'], text])).toEqual([
    [
      'orders',
      '41',
      expect.stringMatching(/^an offset was committed past records that are not done: .*unchanged/),
    ],
  ])
})
