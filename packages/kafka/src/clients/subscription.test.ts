import { handMadeGuard } from '@onceward/testing/adapter'
import type { Consumer } from 'kafkajs'
import { expect, test } from 'vitest'
import { protocolError } from '../fixtures/fetch.ts'
import { type Receiving, receiving } from '../fixtures/receiving.ts'
import { resolveConsumerSettings } from '../options.ts'
import { Subscription } from './subscription.ts'

/** The last consumer looks at its topics, while the broker answers it. */
async function look(kit: Receiving): Promise<void> {
  for (let second = 0; second < 3; second += 1) {
    kit.consumers.at(-1)?.emit('HEARTBEAT')
    await kit.clock.advance(1_000)
  }
}

/** Its consumer knows the topic by its first id. */
async function knowing(): Promise<Receiving> {
  const kit = receiving()
  kit.world.ids = new Map([['orders', 'first']])
  const started = kit.receiver.start()
  await kit.clock.advance(0)
  kit.join()
  await started
  return kit
}

const REWOUND = / (seek|commit) /

test('a topic that was deleted and created again is read from its beginning', async () => {
  const kit = await knowing()
  expect(kit.calls).toContain('cluster cluster-1')
  const before = kit.calls.length
  kit.world.ids = new Map([['orders', 'second']])
  await kit.clock.advance(1_500)
  kit.consumers[0]?.emit('FETCH')
  await kit.clock.advance(1_500)
  expect(kit.calls.slice(before + 1)).toEqual([
    '0 seek {"topic":"orders","partition":0,"offset":"7"}',
    'rewound {"topic":"orders","partition":0,"offset":"7"}',
    '0 seek {"topic":"orders","partition":1,"offset":"7"}',
    'rewound {"topic":"orders","partition":1,"offset":"7"}',
    // Red when the group keeps the offset of the old topic: a crash or a rebalance would skip what is below it.
    '0 commit [{"topic":"orders","partition":0,"offset":"7"},{"topic":"orders","partition":1,"offset":"7"}]',
  ])
  expect(kit.logged).toMatchObject([
    { level: 'warn', fields: { group: 'billing', topics: ['orders'], topic: 'orders' } },
  ])
})

// Red when it asks on: kafkajs, which disconnects meanwhile, opens a connection that keeps the process alive.
test('a drain while a topic that was created again is looked at commits nothing', async () => {
  const kit = await knowing()
  kit.world.ids = new Map([['orders', 'second']])
  const answered = Promise.withResolvers<void>()
  kit.world.lows = () => answered.promise
  await look(kit)
  await kit.receiver.finish()
  answered.resolve()
  await kit.clock.advance(0)
  expect(kit.logged).toMatchObject([{ fields: { topic: 'orders' } }, { level: 'debug' }])
  expect(kit.calls.filter((call) => REWOUND.test(call))).toEqual([])
})

// Red when it asks on, as above.
test('a drain while the topics are looked at asks nothing more', async () => {
  const kit = await knowing()
  kit.world.ids = new Map([['orders', 'second']])
  const answered = Promise.withResolvers<void>()
  const asked: string[] = []
  kit.world.look = () => answered.promise
  kit.world.lows = async () => void asked.push('lows')
  await look(kit)
  await kit.receiver.finish()
  answered.resolve()
  await kit.clock.advance(0)
  expect([kit.logged.map(({ level }) => level), asked]).toEqual([['debug'], []])
})

// Red when the consumer that has ended is rewound: kafkajs would commit for a member that is no more.
test('a topic that was created again is rewound for the consumer that follows, if one does meanwhile', async () => {
  const kit = await knowing()
  kit.world.ids = new Map([['orders', 'second']])
  const answered = Promise.withResolvers<void>()
  kit.world.lows = () => answered.promise
  await look(kit)
  kit.consumers[0]?.emit('CRASH', { error: new Error('connect ECONNREFUSED') })
  await kit.clock.advance(1_000)
  kit.join()
  answered.resolve()
  await kit.clock.advance(0)
  expect(kit.consumers).toHaveLength(2)
  expect(kit.calls.filter((call) => REWOUND.test(call))).toEqual([])
  await look(kit)
  expect(kit.calls.filter((call) => REWOUND.test(call)).map((call) => call.slice(0, 6))).toEqual([
    ...['1 seek', '1 seek', '1 comm'],
  ])
})

// Red when the answer is taken to have the topic: the member would log the topic again with every look.
test('a topic that was created again with fewer partitions is looked at once', async () => {
  const kit = await knowing()
  kit.world.ids = new Map([['orders', 'second']])
  kit.world.owned = [1]
  kit.world.partitions = [0]
  await look(kit)
  await look(kit)
  expect(kit.calls.filter((call) => REWOUND.test(call))).toEqual(['0 commit []'])
  const fields = { topic: 'orders', partitions: [1] }
  expect(kit.logged).toMatchObject([{ level: 'warn', fields }])
})

// Red when it logs that it reads the topic from its beginning: in a big group most members have none of it.
test('a member without partitions of a topic that was created again leaves it to the others', async () => {
  const kit = await knowing()
  kit.world.ids = new Map([['orders', 'second']])
  kit.world.owned = []
  await look(kit)
  expect(kit.calls.filter((call) => REWOUND.test(call))).toEqual([])
  expect(kit.logged).toEqual([])
})

// Red when each member looks once: one that has seen the new topic goes on at the offset of the old one, which the last
// owner has committed before it looked.
test('partitions that come within two minutes are read from their beginning too, once', async () => {
  const kit = await knowing()
  kit.world.ids = new Map([['orders', 'second']])
  const sought = () => kit.calls.filter((call) => call.includes(' seek '))
  const seek = (partition: number) =>
    `0 seek {"topic":"orders","partition":${partition},"offset":"7"}`
  kit.world.owned = []
  await look(kit)
  kit.world.owned = [0]
  await look(kit)
  await look(kit)
  expect(sought()).toEqual([seek(0)])
  for (let looks = 0; looks < 36; looks += 1) await look(kit)
  kit.world.owned = [0, 1]
  await look(kit)
  expect(sought()).toEqual([seek(0), seek(1)])
  for (let looks = 0; looks < 3; looks += 1) await look(kit)
  kit.world.owned = [0, 1, 2]
  await look(kit)
  expect(sought()).toHaveLength(2)
})

test('a new consumer reads a topic that appears, but not while a rebalance is pending', async () => {
  const kit = receiving({ topics: [/^orders/] })
  kit.world.ids = new Map([['orders-1', 'a']])
  const started = kit.receiver.start()
  await kit.clock.advance(0)
  kit.join()
  await started
  kit.world.ids = new Map([...kit.world.ids, ['orders-2', 'b'], ['refunds', 'c']])
  kit.world.isHeld = true
  await look(kit)
  expect(kit.consumers).toHaveLength(1)
  kit.world.isHeld = false
  await look(kit)
  expect(kit.consumers).toHaveLength(2)
  expect(kit.receiver.outage).toBeUndefined()
  expect(kit.logged).toMatchObject([{ level: 'info', fields: { appeared: ['orders-2'] } }])
})

test('a deleted topic is named in health while the others are consumed', async () => {
  const kit = receiving({ topics: ['orders', 'refunds'] })
  kit.world.ids = new Map([
    ['orders', 'a'],
    ['refunds', 'b'],
  ])
  const started = kit.receiver.start()
  await kit.clock.advance(0)
  kit.join()
  await started
  expect(kit.receiver.notice).toBeUndefined()
  kit.world.missing = new Set(['refunds'])
  await look(kit)
  expect(kit.calls).toContain('1 subscribe {"topics":["orders"],"fromBeginning":true}')
  kit.join()
  expect(kit.receiver.outage).toBeUndefined()
  expect(kit.receiver.notice).toBe(
    'topics that do not exist are not consumed until they are created: refunds',
  )
  expect(kit.logged).toMatchObject([{ level: 'warn', fields: { vanished: ['refunds'] } }])
})

// Red when each consumer logs them again: one follows another for as long as something is wrong.
test('topics that this client may not describe are logged once, again when there are more, and named in health', async () => {
  const { cluster, logged, port, world } = receiving()
  const named = ['orders', 'refunds', 'claims']
  const subscription = new Subscription({
    ...{ port, settings: resolveConsumerSettings({ topics: named }, port.settings) },
    ...{ batches: {} as never, fields: { group: 'billing' } },
    ...{ isAnswered: () => true, onChanged: () => undefined },
  })
  const consumer: object = { subscribe: async () => undefined }
  const notices: unknown[] = []
  for (const denied of [
    ['refunds'],
    ['refunds'],
    ['refunds', 'claims'],
    ['claims'],
    ['refunds'],
    [],
  ]) {
    world.ids = new Map([['orders', 'a']])
    world.denied = new Set(denied)
    world.missing = new Set(denied.includes('refunds') ? [] : ['refunds'])
    await subscription.begin(consumer as Consumer, cluster)
    notices.push(subscription.notice)
  }
  const fields = { group: 'billing', fix: 'allow Read on these topics' }
  expect(logged).toMatchObject(
    [['refunds'], ['refunds', 'claims'], ['refunds']].map((denied) => ({
      ...{ level: 'error', fields: { ...fields, denied } },
    })),
  )
  const cannot = 'topics that this client may not describe are not consumed until it may Read them'
  const missing = 'topics that do not exist are not consumed until they are created: refunds'
  expect(notices).toEqual([
    ...[`${cannot}: refunds`, `${cannot}: refunds`, `${cannot}: refunds, claims`],
    ...[`${missing}; ${cannot}: claims`, `${cannot}: refunds`, missing],
  ])
  world.missing = new Set()
  await subscription.begin(consumer as Consumer, cluster)
  expect(subscription.notice).toBeUndefined()
})

test.each([true, false])(
  'kafkajs subscribes by itself if it hides the cluster, fromBeginning: %s',
  async (fromBeginning) => {
    const kit = receiving({ topics: ['orders', 'refunds'], fromBeginning })
    kit.world.hasCluster = false
    void kit.receiver.start()
    await kit.clock.advance(0)
    const given = JSON.stringify({ topics: ['orders', 'refunds'], fromBeginning })
    expect(kit.calls.filter((call) => call.includes('subscribe'))).toEqual([`0 subscribe ${given}`])
  },
)

test.each([
  ['a group without offsets starts at the ends', [], 'accepted', ['commit', '0 subscribe true']],
  ['invalid offsets are none', ['-1', '-1'], 'accepted', ['commit', '0 subscribe true']],
  ['a group with an offset continues', ['-1', '0'], 'accepted', ['0 subscribe true']],
  [
    'kafkajs chooses if active members have no offset',
    [],
    'refused',
    ['commit', '0 subscribe false', '0 subscribe true'],
  ],
] as const)('fromBeginning: false: %s', async (_what, committed, answer, expected) => {
  const kit = receiving({ fromBeginning: false })
  kit.world.committed = committed
  if (answer === 'refused') {
    kit.world.commit = () => Promise.reject(protocolError('UNKNOWN_MEMBER_ID'))
  }
  void kit.receiver.start()
  await kit.clock.advance(0)
  const seen = kit.calls.flatMap((call) => {
    if (call.startsWith('commit')) return ['commit']
    const subscribed = /subscribe .*"fromBeginning":(true|false)/.exec(call)
    return subscribed === null ? [] : [`0 subscribe ${subscribed[1]}`]
  })
  expect(seen.toSorted()).toEqual([...expected].toSorted())
})

test('fromBeginning: false: a commit that fails otherwise is retried before anything is read', async () => {
  const kit = receiving({ fromBeginning: false })
  kit.world.commit = () => Promise.reject(new Error('connect ECONNREFUSED'))
  void kit.receiver.start()
  await kit.clock.advance(0)
  expect(kit.calls.some((call) => call.includes(' run '))).toBe(false)
  kit.world.commit = async () => undefined
  await kit.clock.advance(1_000)
  expect(kit.calls.some((call) => call.startsWith('1 run '))).toBe(true)
})

// Red when each rebalance of the group logs them again.
test('topics of other members that nobody gets are logged once, and again when there are more', () => {
  const { port, logged } = handMadeGuard()
  const subscription = new Subscription({
    ...{ port, settings: resolveConsumerSettings({ topics: ['orders'] }, port.settings) },
    ...{ batches: {} as never, fields: {}, isAnswered: () => true, onChanged: () => undefined },
  })
  for (const denied of [['refunds'], ['refunds'], ['refunds', 'stock'], ['stock'], ['refunds']]) {
    subscription.unassigned(denied)
  }
  const topics = logged.map(({ fields }) => Reflect.get(fields, 'denied'))
  expect(topics).toEqual([['refunds'], ['refunds', 'stock'], ['refunds']])
})
