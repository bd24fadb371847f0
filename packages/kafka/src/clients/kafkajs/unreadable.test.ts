import { handMadeGuard } from '@onceward/testing/adapter'
import type { Cluster } from 'kafkajs'
import { expect, test } from 'vitest'
import { protocolError } from '../../fixtures/fetch.ts'
import { type ConsumeKafkaOptions, resolveConsumerSettings } from '../../options.ts'
import { Unreadable } from './unreadable.ts'

/** The text is that of kafkajs, for records whose codec nobody has registered. */
const notImplemented = Object.assign(new Error('LZ4 compression not implemented'), {
  name: 'KafkaJSNotImplemented',
})

/** A cluster that answers each fetch of a partition as the test says; the group has committed offset 7. */
function checking(consumerOptions: ConsumeKafkaOptions['consumer'] = {}) {
  const { port, clock, logged } = handMadeGuard()
  const told: string[] = []
  const fetched: string[] = []
  const requests: object[] = []
  const errors = new Map<number | string, Error>()
  /** As kafkajs keeps them, over rebalances too. */
  const paused = new Set<number | undefined>()
  const asked: string[] = []
  const world = { answer: Promise.resolve(), committed: '7', hasLeader: true, waitsFor: 'fetch' }
  const ask = async (what: string): Promise<void> => {
    asked.push(what)
    if (world.waitsFor === what) await world.answer
  }
  const tell = (verb: 'pause' | 'resume') => (partitions: readonly { partitions?: number[] }[]) => {
    const [partition] = partitions[0]?.partitions ?? []
    told.push(`${verb} ${partition}`)
    if (verb === 'pause') paused.add(partition)
    else paused.delete(partition)
  }
  const consumer = { pause: tell('pause'), resume: tell('resume') }
  const offsetFetch = async (): Promise<object> => {
    await ask('committed')
    return { responses: [{ partitions: [{ offset: world.committed }] }] }
  }
  const cluster: object = {
    findGroupCoordinator: async () => {
      await ask('coordinator')
      return { offsetFetch }
    },
    fetchTopicsOffset: async () => {
      await ask('lows')
      return [{ partitions: [{ offset: '7' }] }]
    },
    // Partition 0 is led by broker 10, partition 1 by broker 11, and so on.
    findLeaderForPartitions: (_topic: string, partitions: number[]) =>
      Object.fromEntries(world.hasLeader ? partitions.map((each) => [10 + each, [each]]) : []),
    findBroker: async ({ nodeId }: { nodeId: string }) => ({
      fetch: async (request: { topics: [{ partitions: [Fetched] }] }) => {
        requests.push(request)
        const [{ partition, fetchOffset }] = request.topics[0].partitions
        expect(nodeId).toBe(String(10 + partition))
        fetched.push(`${partition}@${fetchOffset}`)
        await ask('fetch')
        const error = errors.get(partition) ?? errors.get(`${partition}@${fetchOffset}`)
        if (error !== undefined) throw error
      },
    }),
  }
  const settings = resolveConsumerSettings(
    { topics: ['orders'], consumer: consumerOptions },
    port.settings,
  )
  const unreadable = new Unreadable({ port, settings, fields: { group: 'billing' } })
  const join = (...partitions: readonly number[]): void =>
    unreadable.joined(consumer, cluster as Cluster, { orders: partitions })
  return {
    ...{ clock, logged, told, asked, fetched, requests, errors, paused, world },
    ...{ unreadable, consumer, join },
  }
}

interface Fetched {
  readonly partition: number
  readonly fetchOffset: string
}

test('nothing is checked as long as no consumer ended for want of a codec', async () => {
  const kit = checking()
  kit.unreadable.ended(new Error('Connection closed'), new Map())
  kit.join(0, 1)
  await kit.clock.advance(10_000)
  expect([kit.told, kit.fetched]).toEqual([[], []])
})

test('partitions are resumed when they can be read, and the others are named and tried again', async () => {
  const kit = checking()
  kit.errors.set(0, notImplemented)
  kit.errors.set(1, new Error('connect ECONNREFUSED'))
  kit.errors.set(2, Object.assign(new Error('gone'), { name: 'KafkaJSOffsetOutOfRange' }))
  kit.unreadable.ended(new Error('crash', { cause: notImplemented }), new Map())
  kit.join(0, 1, 2, 3)
  expect(kit.told).toEqual(['pause 0', 'pause 1', 'pause 2', 'pause 3'])
  await kit.clock.advance(0)
  expect(kit.told.slice(4)).toEqual(['resume 2', 'resume 3'])
  expect(kit.unreadable.notice).toMatch(
    /^Topic 'orders', partition 0, waits at offset 7: .*kafkajs-lz4.* = …\.$/,
  )
  kit.errors.delete(1)
  await kit.clock.advance(6_000)
  expect(kit.told.slice(6)).toEqual(['resume 1'])
  kit.errors.delete(0)
  await kit.clock.advance(3_000)
  expect([kit.told.slice(7), kit.unreadable.notice, kit.clock.timers]).toEqual([
    ['resume 0'],
    undefined,
    0,
  ])
  const place = { group: 'billing', topic: 'orders', partition: 0 }
  expect(kit.logged).toMatchObject([
    { level: 'error', fields: { ...place, offset: '7', err: { cause: notImplemented } } },
    { level: 'info', fields: place },
  ])
  // The next consumer is trusted again.
  kit.join(0, 1)
  expect(kit.told.slice(8)).toEqual([])
})

// Red when the error ends the consumer again and again: no topic is consumed, and nothing names the one that is denied.
test('a topic that this client may not read waits and is named once, and the others are resumed', async () => {
  const kit = checking()
  const denied = protocolError('TOPIC_AUTHORIZATION_FAILED')
  for (const partition of [0, 1]) kit.errors.set(partition, denied)
  kit.unreadable.ended(new Error('crash', { cause: denied }), new Map())
  kit.join(0, 1, 2)
  await kit.clock.advance(0)
  expect(kit.told.slice(3)).toEqual(['resume 2'])
  const notice = "Topic 'orders' waits: this client may not read it. Allow Read on the topic."
  expect(kit.unreadable.notice).toBe(notice)
  expect(kit.logged.map(({ level, text }) => [level, text])).toEqual([
    ['error', 'a topic waits, because this client may not read it'],
  ])
  kit.errors.clear()
  await kit.clock.advance(3_000)
  expect([kit.told.slice(4), kit.unreadable.notice]).toEqual([['resume 0', 'resume 1'], undefined])
})

test('a join checks the partitions it brings, and an end checks nothing more', async () => {
  const kit = checking()
  for (const partition of [0, 1]) kit.errors.set(partition, notImplemented)
  kit.unreadable.ended(notImplemented, new Map())
  kit.join(0)
  await kit.clock.advance(0)
  kit.join(1)
  await kit.clock.advance(0)
  expect(kit.unreadable.notice).toContain('partition 1')
  expect(kit.unreadable.notice).not.toContain('partition 0')
  expect(kit.clock.timers).toBe(1)
  kit.unreadable.end()
  const before = kit.fetched.length
  await kit.clock.advance(10_000)
  expect([kit.fetched.length, kit.clock.timers]).toEqual([before, 0])
})

// Red when the pause stays: kafkajs keeps it over rebalances, and the partition stands still for ever, without a notice.
test('a partition that goes to another member, and comes back, is consumed', async () => {
  const kit = checking()
  const denied = protocolError('TOPIC_AUTHORIZATION_FAILED')
  kit.errors.set(1, denied)
  kit.unreadable.ended(denied, new Map())
  kit.join(0, 1)
  await kit.clock.advance(0)
  expect([...kit.paused]).toEqual([1])
  kit.join(0, 1)
  expect(kit.paused).toEqual(new Set([0, 1]))
  kit.join(0)
  await kit.clock.advance(0)
  kit.join(0, 1)
  await kit.clock.advance(10_000)
  expect([[...kit.paused], kit.unreadable.notice]).toEqual([[], undefined])
})

// Red when the late answer counts: health would name a partition that another member has.
test('a check that is answered after the next join says nothing about partitions that are gone', async () => {
  const kit = checking()
  const answer = Promise.withResolvers<void>()
  kit.world.answer = answer.promise
  kit.errors.set(0, notImplemented)
  kit.unreadable.ended(notImplemented, new Map())
  kit.join(0)
  await kit.clock.advance(0)
  kit.world.answer = Promise.resolve()
  kit.join(1)
  answer.resolve()
  await kit.clock.advance(10_000)
  expect([kit.fetched, kit.logged, kit.unreadable.notice]).toEqual([['0@7', '1@7'], [], undefined])
})

test('a check that is answered after the end resumes nothing and starts no other one', async () => {
  const kit = checking()
  const answer = Promise.withResolvers<void>()
  kit.world.answer = answer.promise
  kit.unreadable.ended(notImplemented, new Map())
  kit.join(0, 1)
  await kit.clock.advance(0)
  kit.unreadable.end()
  answer.resolve()
  await kit.clock.advance(10_000)
  expect([kit.told, kit.fetched, kit.clock.timers]).toEqual([['pause 0', 'pause 1'], ['0@7'], 0])
})

// Red when it asks on: kafkajs, which disconnects meanwhile, opens a connection that keeps the process alive.
test.each(['coordinator', 'committed', 'lows'])(
  'a check that waits for an answer (%s) at the end asks nothing more',
  async (answer) => {
    const kit = checking()
    const answered = Promise.withResolvers<void>()
    Object.assign(kit.world, { committed: '-1', waitsFor: answer, answer: answered.promise })
    kit.unreadable.ended(notImplemented, new Map())
    kit.join(0)
    await kit.clock.advance(0)
    kit.unreadable.end()
    answered.resolve()
    await kit.clock.advance(10_000)
    expect([kit.asked.at(-1), kit.clock.timers]).toEqual([answer, 0])
  },
)

// kafkajs had fetched ahead of the committed offset when the records it cannot read came.
test('a partition is read at its committed offset and as far as it had been fetched', async () => {
  const kit = checking()
  kit.errors.set('0@20', notImplemented)
  kit.unreadable.ended(notImplemented, new Map([['orders/0', '20']]))
  kit.join(0, 1)
  await kit.clock.advance(0)
  expect(kit.fetched).toEqual(['0@7', '0@20', '1@7'])
  expect([[...kit.paused], kit.unreadable.notice]).toEqual([
    [0],
    expect.stringMatching(/waits at offset 20:/),
  ])
})

// Red when health tells the first reason for ever: the user allows Read, and is told to allow it.
test('health and the log tell the present reason of a partition that waits', async () => {
  const kit = checking()
  kit.errors.set(0, protocolError('TOPIC_AUTHORIZATION_FAILED'))
  kit.unreadable.ended(kit.errors.get(0), new Map())
  kit.join(0)
  await kit.clock.advance(3_000)
  kit.errors.set(0, notImplemented)
  await kit.clock.advance(6_000)
  expect(kit.unreadable.notice).toMatch(/kafkajs-lz4/)
  expect(kit.unreadable.notice).not.toMatch(/may not read/)
  expect(kit.logged.map(({ text }) => text)).toEqual([
    'a topic waits, because this client may not read it',
    'a partition waits, because kafkajs cannot decompress its records',
  ])
})

test.each([
  [{}, 1_048_576],
  [{ maxBytesPerPartition: 2_000 }, 2_000],
])(
  'a partition is fetched as the consumer with the options %j fetches it',
  async (options, maxBytes) => {
    const kit = checking(options)
    kit.unreadable.ended(notImplemented, new Map())
    kit.join(3)
    await kit.clock.advance(0)
    const partitions = [{ partition: 3, fetchOffset: '7', maxBytes }]
    expect(kit.requests).toEqual([
      {
        ...{ isolationLevel: 1, maxWaitTime: 0, minBytes: 1, maxBytes },
        topics: [{ topic: 'orders', partitions }],
      },
    ])
  },
)

test('a partition without a leader is checked again, and the checks let the process end', async () => {
  const kit = checking()
  kit.world.hasLeader = false
  kit.unreadable.ended(notImplemented, new Map())
  kit.join(0)
  await kit.clock.advance(0)
  expect([[...kit.paused], kit.unreadable.notice]).toEqual([[0], undefined])
  kit.world.hasLeader = true
  await kit.clock.advance(3_000)
  expect([...kit.paused]).toEqual([])
  expect(kit.clock.asked).toEqual([{ delayMs: 3_000, keepAlive: false }])
})

test('without access to the cluster nothing is paused, because nothing could be checked', () => {
  const kit = checking()
  kit.unreadable.ended(notImplemented, new Map())
  kit.unreadable.joined(kit.consumer, undefined, { orders: [0] })
  expect(kit.told).toEqual([])
})
