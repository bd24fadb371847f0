import { Clock } from '@onceward/testing/adapter'
import type { Cluster } from 'kafkajs'
import { expect, test } from 'vitest'
import { lookOf } from './kafkajs/topic-ids.ts'
import { type TopicChange, TopicWatch } from './topic-watch.ts'

/** A watch of a cluster that is as the test says. */
function watching(subscriptions: readonly (string | RegExp)[] = ['orders', 'refunds']) {
  const clock = new Clock()
  const world = {
    ids: new Map<string, string>([
      ['orders', 'a'],
      ['refunds', 'b'],
    ]),
    denied: new Set<string>(),
    /** Whether the broker tells ids. */
    isOld: false,
    isAnswered: true,
    looks: 0,
    answer: async (): Promise<void> => undefined,
    readAnew: async (): Promise<void> => undefined,
  }
  const send = async () => {
    world.looks += 1
    await world.answer()
    const { ids, denied } = world
    const missing = ['orders', 'refunds'].filter((topic) => !(ids.has(topic) || denied.has(topic)))
    return { clusterId: 'cluster-1', ids: new Map(ids), missing: new Set(missing), denied }
  }
  const cluster: object = {
    brokerPool: {
      findConnectedBroker: async () => ({
        versions: { 3: { maxVersion: world.isOld ? 11 : 12 } },
        connectionPool: { send },
      }),
    },
    metadata: async () => {
      // As kafkajs answers while any partition of the cluster has no leader.
      if (!world.isOld) throw new Error('There is no leader for this topic-partition')
      world.looks += 1
      return { topicMetadata: [...world.ids.keys()].map((topic) => ({ topic })) }
    },
  }
  const anew: string[] = []
  const changes: TopicChange[] = []
  const logged: unknown[] = []
  const log =
    (level: string) =>
    (fields: object, text: string): void =>
      void logged.push({ level, fields, text })
  const watch = new TopicWatch({
    runtime: clock.runtime,
    logger: {
      ...{ debug: log('debug'), info: log('info') },
      ...{ warn: log('warn'), error: log('error') },
    },
    subscriptions,
    isAnswered: () => world.isAnswered,
    onLooked: async () => undefined,
    onAnew: (topic) => {
      anew.push(topic)
      return world.readAnew()
    },
    onChanged: (change) => void changes.push(change),
  })
  const begin = () => watch.begin(lookOf(cluster as Cluster))
  return { clock, world, watch, anew, changes, logged, begin }
}

// Red when the check is made: each check of a broker that is down costs kafkajs connections (see `Commits`).
test('the topics are checked every three seconds, except while the broker does not answer', async () => {
  const { clock, world, watch, begin } = watching()
  await begin()
  await clock.advance(3_000)
  expect(world.looks).toBe(2)
  world.isAnswered = false
  await clock.advance(30_000)
  expect(world.looks).toBe(2)
  world.isAnswered = true
  await clock.advance(3_000)
  expect(world.looks).toBe(3)
  watch.end()
  expect(clock.timers).toBe(0)
  // Red when they keep a process alive that is done.
  expect(new Set(clock.asked.map(({ keepAlive }) => keepAlive))).toEqual(new Set([false]))
})

// Red when it asks on: kafkajs, which disconnects meanwhile, opens a connection that keeps the process alive.
test('a check that is under way at the end asks nothing more', async () => {
  const { clock, world, watch, begin } = watching([/^orders/])
  await begin()
  expect(world.looks).toBe(2)
  const answered = Promise.withResolvers<void>()
  world.answer = () => answered.promise
  await clock.advance(3_000)
  watch.end()
  answered.resolve()
  await clock.advance(0)
  expect([world.looks, clock.timers]).toEqual([3, 0])
})

// Red when the id is stored first: the topic is never read from its beginning if the broker failed once.
test('K23: a topic that was created again is read anew until that succeeded, and then no more', async () => {
  const { clock, world, anew, begin } = watching()
  await begin()
  world.ids.set('orders', 'c')
  world.readAnew = () => Promise.reject(new Error('connect ECONNREFUSED'))
  await clock.advance(6_000)
  expect(anew).toEqual(['orders', 'orders'])
  world.readAnew = async () => undefined
  await clock.advance(9_000)
  expect(anew).toEqual(['orders', 'orders', 'orders'])
})

// Red when a new consumer takes the id for granted: offsets of the old topic may have been committed after its deletion.
test('K23: a topic that was created again between two consumers is read anew by the second', async () => {
  const { clock, world, watch, anew, changes, begin } = watching()
  await begin()
  world.ids.delete('orders')
  await clock.advance(3_000)
  expect(changes).toEqual([{ appeared: [], vanished: ['orders'], denied: [] }])
  expect([await begin(), watch.missing]).toEqual([['refunds'], ['orders']])
  world.ids.set('orders', 'c')
  await clock.advance(3_000)
  expect([changes.at(-1), anew]).toEqual([{ appeared: ['orders'], vanished: [], denied: [] }, []])
  expect([await begin(), watch.missing]).toEqual([['orders', 'refunds'], []])
  await clock.advance(3_000)
  expect([anew, changes.length]).toEqual([['orders'], 2])
})

// Red when the watch of the consumer before goes on: every consumer after it would ask the broker once more.
test('a second beginning ends the watch before it, also one that waits for its answer', async () => {
  const { clock, world, begin } = watching()
  await begin()
  await begin()
  await clock.advance(3_000)
  expect(world.looks).toBe(3)
  const answered = Promise.withResolvers<void>()
  world.answer = () => answered.promise
  await clock.advance(3_000)
  world.answer = async () => undefined
  await begin()
  answered.resolve()
  await clock.advance(0)
  expect([world.looks, clock.timers]).toEqual([5, 1])
  await clock.advance(3_000)
  expect(world.looks).toBe(6)
})

// Red when each topic costs a copy of all: with 3,000 a look stopped the process for a second, every three seconds.
test('a look at thousands of topics takes milliseconds', async () => {
  const { clock, world, begin } = watching([/^orders/])
  world.ids = new Map(Array.from({ length: 5_000 }, (_, index) => [`orders-${index}`, `${index}`]))
  await begin()
  const before = process.cpuUsage()
  await clock.advance(3_000)
  const { system, user } = process.cpuUsage(before)
  expect(world.looks).toBe(4)
  expect((system + user) / 1_000).toBeLessThan(1_000)
})

test('a look without an answer is repeated', async () => {
  const { clock, world, changes, logged, begin } = watching()
  await begin()
  world.answer = () => Promise.reject(new Error('connect ECONNREFUSED'))
  world.ids.delete('refunds')
  await clock.advance(3_000)
  expect(logged).toEqual([
    {
      ...{ level: 'debug', text: 'the topics could not be looked at' },
      fields: { reason: 'Error: connect ECONNREFUSED' },
    },
  ])
  await clock.advance(3_000)
  expect([world.looks, changes]).toEqual([3, []])
  world.answer = async () => undefined
  await clock.advance(3_000)
  expect(changes).toEqual([{ appeared: [], vanished: ['refunds'], denied: [] }])
})

test('a beginning without any named topic rejects, and patterns wait for their topics', async () => {
  const named = watching()
  named.world.ids.clear()
  await expect(named.begin()).rejects.toThrow(
    'none of the topics exists: orders, refunds. Create them',
  )
  expect(named.clock.timers).toBe(0)
  const pattern = watching([/^ord/, 'refunds'])
  pattern.world.ids.clear()
  await expect(pattern.begin()).rejects.toThrow('none of the topics exists: refunds.')
  pattern.world.ids.set('orders', 'a').set('refunds', 'b').set('stock', 'c')
  expect(await pattern.begin()).toEqual(['orders', 'refunds'])
  const waiting = watching([/^ord/])
  waiting.world.ids.clear()
  expect([await waiting.begin(), waiting.watch.missing]).toEqual([[], []])
  waiting.world.ids.set('orders', 'a')
  await waiting.clock.advance(3_000)
  expect(waiting.changes).toEqual([{ appeared: ['orders'], vanished: [], denied: [] }])
})

// Red when it is subscribed to: kafkajs fetches all topics together, and one that is denied ends the consumer.
test('topics that this client may not describe are left out until it may, and are named if there is no other', async () => {
  const { clock, world, watch, changes, begin } = watching()
  expect(watch.denied).toEqual([])
  world.denied.add('refunds')
  world.ids.delete('refunds')
  expect(await begin()).toEqual(['orders'])
  expect([watch.denied, watch.missing]).toEqual([['refunds'], []])
  await clock.advance(3_000)
  expect(changes).toEqual([])
  world.denied.clear()
  world.ids.set('refunds', 'b')
  await clock.advance(3_000)
  expect(changes).toEqual([{ appeared: ['refunds'], vanished: [], denied: [] }])
  expect(await begin()).toEqual(['orders', 'refunds'])
  world.denied.add('orders')
  world.ids.delete('orders')
  await clock.advance(3_000)
  expect(changes.slice(1)).toEqual([{ appeared: [], vanished: [], denied: ['orders'] }])
  world.denied.add('refunds')
  world.ids.clear()
  await expect(begin()).rejects.toThrow('may not describe these topics: orders, refunds')
})

// Red when a look needs an answer with ids: all of them fail, and nobody learns that topics appear or vanish.
test('topics of an old broker are detected by their names, and named ones are taken to exist', async () => {
  const named = watching()
  named.world.isOld = true
  expect([await named.begin(), named.watch.clusterId]).toEqual([['orders', 'refunds'], undefined])
  named.world.ids.delete('refunds')
  await named.clock.advance(6_000)
  expect([named.changes, named.anew, named.logged]).toEqual([[], [], []])
  const pattern = watching([/./])
  pattern.world.isOld = true
  expect(await pattern.begin()).toEqual(['orders', 'refunds'])
  pattern.world.ids.delete('refunds')
  pattern.world.ids.set('stock', '')
  await pattern.clock.advance(3_000)
  expect(pattern.changes).toEqual([{ appeared: ['stock'], vanished: ['refunds'], denied: [] }])
  expect([pattern.world.looks, pattern.logged]).toEqual([2, []])
})

// Red when only the look every three seconds finds it: what a client has read meanwhile is of another topic.
test('records of a topic that was created again since the last look are not of the same topic', async () => {
  const { anew, begin, watch, world } = watching()
  await begin()
  const none = new Map([['orders', undefined]])
  expect([await watch.areSame(none), world.looks]).toEqual([true, 2])
  expect(await watch.areSame(new Map([['orders', 'a']]))).toBe(true)
  expect(world.looks).toBe(2)
  world.ids.set('orders', 'c')
  expect([await watch.areSame(none), anew]).toEqual([false, ['orders']])
  expect([await watch.areSame(none), watch.ids.get('orders')]).toEqual([true, 'c'])
  expect([await watch.areSame(new Map([['refunds', 'd']])), anew]).toEqual([
    ...[false, ['orders', 'refunds']],
  ])
  world.ids.delete('orders')
  expect(await watch.areSame(none)).toBe(false)
})
