import { ConfigurationError, StoreUnavailableError } from '@onceward/core'
import { expect, test } from 'vitest'
import { type Receiving, receiving } from './fixtures/receiving.ts'

const coded = (text: string, code: number | string): Error =>
  Object.assign(new Error(text), { code })
const busy = coded('RESOURCE_LOCKED', 405)
const hang = () => new Promise<never>(() => undefined)
const refuse = (error: Error) => () => {
  throw error
}

/** The calls made meanwhile. */
async function during(kit: Receiving, what: () => unknown, ms = 0): Promise<readonly string[]> {
  const { length } = kit.calls
  await what()
  await kit.clock.advance(ms)
  return kit.calls.slice(length)
}

const opening = ['connect', 'check', 'createChannel', 'prefetch', 'consume']

test('the first channel opens after a check of the queue, and later channels of the connection without', async () => {
  const kit = receiving({ consumer: { priority: 3 } })
  expect(await during(kit, () => kit.started())).toEqual(opening)
  const { connection } = kit.world
  expect(connection.named('prefetch', 'consume').map(({ args }) => args)).toEqual([
    [7],
    ['orders', { priority: 3, noAck: false }],
  ])
  expect(kit.receiver.outage).toBeUndefined()
  const again = await during(kit, () => connection.channels[0]?.emit('close'), 1_000)
  expect(again).toEqual(['drop', 'connect', 'createChannel', 'prefetch', 'consume'])
  kit.reconnect()
  const anew = await during(kit, () => connection.channels[1]?.emit('close'), 1_000)
  expect(anew).toEqual(['drop', ...opening])
})

test('health reports the error of a channel that ends, or that it was closed', async () => {
  const kit = await receiving().started()
  const [channel] = kit.world.connection.channels
  channel?.emit('error', busy)
  channel?.emit('close')
  expect(kit.receiver.outage).toEqual({
    ...{ state: 'recovering', reason: 'Error: RESOURCE_LOCKED' },
  })
  expect(kit.logged).toMatchObject([{ fields: { queue: 'orders' } }])
  await kit.clock.advance(2_000)
  expect(kit.receiver.outage).toBeUndefined()
  kit.world.connection.channels[1]?.emit('close')
  expect(kit.receiver.outage).toMatchObject({ reason: 'Error: channel closed' })
})

test('pauses grow while channels are short-lived, and a working channel resets them', async () => {
  const kit = await receiving().started()
  const pauseAfter = async (livedMs: number): Promise<number> => {
    const { connection } = kit.world
    await kit.clock.advance(livedMs)
    const { length } = connection.named('consume')
    connection.channels.at(-1)?.emit('close')
    const beforeMs = kit.clock.nowMs
    while (connection.named('consume').length === length) await kit.clock.advance(10)
    return kit.clock.nowMs - beforeMs
  }
  // A channel that was closed: 200 ms at first.
  expect([await pauseAfter(0), await pauseAfter(10_000), await pauseAfter(10_000)]).toEqual([
    ...[200, 300, 500],
  ])
  expect(await pauseAfter(10_001)).toBe(200)
  expect(await pauseAfter(0)).toBe(300)
  kit.world.connection.consuming.deliver('a')
  kit.settled()
  expect(await pauseAfter(0)).toBe(200)
})

test('a broker that blocks publishers is reported once, and only if nothing worse is to report', async () => {
  const kit = await receiving().started()
  for (let round = 0; round < 2; round += 1) kit.alarm.changed(kit, 'low on memory')
  expect(kit.receiver.outage).toEqual({
    state: 'recovering',
    reason:
      'the broker blocks publishers: low on memory; messages that must be published are held, and consuming continues',
  })
  kit.world.connection.channels[0]?.emit('close')
  expect(kit.receiver.outage?.reason).toBe('Error: channel closed')
  await kit.clock.advance(1_000)
  for (let round = 0; round < 2; round += 1) kit.alarm.changed(kit, undefined)
  expect(kit.receiver.outage).toBeUndefined()
  const blocks = kit.logged.filter(({ text }) => text.startsWith('the broker'))
  expect(blocks).toMatchObject([
    { level: 'warn', fields: { queue: 'orders', reason: 'low on memory' } },
    { level: 'info', fields: { queue: 'orders', reason: undefined } },
  ])
})

test('an alarm lasts until the last blocked connection is unblocked', () => {
  const { alarm } = receiving()
  const connections = [{}, {}] as const
  for (const connection of connections) alarm.changed(connection, 'low on disk')
  alarm.changed(connections[0], undefined)
  expect(alarm.outage?.reason).toContain('low on disk')
  alarm.changed(connections[1], undefined)
  expect(alarm.outage).toBeUndefined()
})

test('a permanent error makes the start fail', async () => {
  const error = new ConfigurationError('no queue')
  const kit = receiving()
  kit.world.check = () => Promise.reject(error)
  await expect(kit.receiver.start()).rejects.toBe(error)
})

test('the consumer waits for a queue that is missing after a reconnect', async () => {
  const kit = await receiving().started()
  const [channel] = kit.world.connection.channels
  kit.reconnect()
  kit.world.check = () => Promise.reject(new ConfigurationError('no queue'))
  channel?.emit('close')
  await kit.clock.advance(1_000)
  expect(kit.receiver.outage).toEqual({
    ...{ state: 'recovering', reason: expect.stringMatching(/no queue/) },
  })
  kit.world.check = async () => undefined
  await kit.clock.advance(30_000)
  expect([kit.receiver.outage, kit.ends]).toEqual([undefined, []])
})

test('the consumer waits for a store that is down at the start, and checks it again soon', async () => {
  const kit = receiving()
  kit.state.open = () => Promise.reject(new StoreUnavailableError('gone'))
  await kit.started()
  expect([kit.calls, kit.receiver.outage?.state]).toEqual([[], 'paused'])
  kit.state.open = async () => undefined
  expect(await during(kit, () => undefined, 199)).toEqual([])
  expect(await during(kit, () => undefined, 1)).toEqual([...opening, 'resume'])
})

test('a paused consumer leaves the queue and gives back what was not started, until it is resumed', async () => {
  const kit = await receiving().started()
  expect(await during(kit, () => kit.pause({ source: 'operator' }), 1_000)).toEqual([
    'clear',
    'cancel',
  ])
  expect(kit.receiver.outage).toMatchObject({ state: 'paused' })
  expect(await during(kit, () => undefined, 60_000)).toEqual([])
  expect(await during(kit, () => kit.pause(undefined), 1_000)).toEqual([
    'prefetch',
    'consume',
    'resume',
  ])
  expect(kit.receiver.outage).toBeUndefined()
})

test('a closed connection of the user stops the consumer, and an own one is opened again', async () => {
  const over = new Error('Connection closed: by the server')
  const ours = receiving()
  ours.world.connection.answers.set('createChannel', refuse(over))
  expect(await during(ours, () => ours.started())).toContain('discard')
  expect(ours.ends).toEqual([])
  const theirs = await receiving().started()
  Object.assign(theirs.world, { isOurs: false, isOver: true })
  theirs.world.connection.channels[0]?.emit('error', over)
  theirs.world.connection.channels[0]?.emit('close')
  await theirs.clock.advance(60_000)
  expect(theirs.ends).toMatchObject([
    {
      kind: 'fatal',
      error: { message: expect.stringMatching(/is over \(Error: .*by the server/) },
    },
  ])
})

test('an own connection that opens no channel within half a minute is replaced', async () => {
  const kit = receiving()
  kit.world.connection.answers.set('createChannel', hang)
  const started = kit.receiver.start()
  await kit.clock.advance(30_000)
  await started
  expect(kit.calls).toEqual(['connect', 'check', 'createChannel', 'discard'])
  expect(kit.receiver.outage?.reason).toMatch(/a new channel got no answer/)
  const refused = receiving()
  refused.world.connection.answers.set('createChannel', refuse(busy))
  await refused.started()
  expect(refused.calls).not.toContain('discard')
})

// Red when a consumer that never begins is waited for without end: a hang that health calls "not there yet".
test.each([true, false])(
  'a channel whose consumer does not begin within half a minute is replaced, own connection %s',
  async (isOurs) => {
    const kit = receiving()
    kit.world.isOurs = isOurs
    const begun = Promise.withResolvers<void>()
    kit.world.connection.answers.set('consume', () => begun.promise)
    const started = kit.receiver.start()
    await kit.clock.advance(30_000)
    await started
    expect(kit.calls.slice(3)).toEqual(['prefetch', 'consume', 'close', 'drop', 'discard'])
    expect(kit.receiver.outage?.reason).toMatch(/basic.consume got no answer/)
    kit.reconnect()
    await kit.clock.advance(2_000)
    expect(kit.receiver.outage).toBeUndefined()
    // The one that begins late is not used.
    begun.resolve()
    await kit.clock.advance(60_000)
    expect(kit.calls.filter((call) => call === 'consume')).toHaveLength(2)
    await kit.receiver.stop()
    expect(kit.calls.slice(-1)).toEqual(['cancel'])
  },
)

test('a channel that does not cancel a consumer within half a minute is replaced', async () => {
  const kit = receiving()
  kit.world.prefetches = [2, 5]
  await kit.started()
  kit.world.connection.answers.set('cancel', hang)
  kit.world.prefetches = [2]
  kit.receiver.pump()
  await kit.clock.advance(30_000)
  expect(kit.calls.slice(-4)).toEqual(['cancel', 'close', 'drop', 'discard'])
  kit.reconnect()
  await kit.clock.advance(2_000)
  expect(kit.receiver.outage).toBeUndefined()
  expect(kit.calls.slice(-2)).toEqual(['prefetch', 'consume'])
})

test('a connection of the user may take long to recover, and the start does not wait for it', async () => {
  const kit = receiving()
  kit.world.isOurs = false
  const opened = Promise.withResolvers<void>()
  kit.world.open = () => opened.promise
  let isStarted = false
  const started = kit.receiver.start().then(() => {
    isStarted = true
  })
  await kit.clock.advance(44_999)
  expect(isStarted).toBe(false)
  await kit.clock.advance(1)
  await started
  expect(kit.receiver.outage).toEqual({
    ...{ state: 'recovering', reason: 'the connection is not there yet' },
  })
  opened.resolve()
  await kit.clock.advance(0)
  expect(kit.receiver.outage).toBeUndefined()
  const never = receiving()
  const checked = Promise.withResolvers<void>()
  never.world.isOurs = false
  never.world.check = () => checked.promise
  void never.receiver.start()
  await never.clock.advance(45_000)
  const error = new ConfigurationError('no queue')
  checked.reject(error)
  await never.clock.advance(0)
  expect(never.ends).toEqual([{ kind: 'fatal', error }])
})
