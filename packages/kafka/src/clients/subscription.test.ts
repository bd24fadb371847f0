import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { protocolError } from '../fixtures/fetch.ts'
import { joined, receiving } from '../fixtures/receiving.ts'
import { resolveConsumerSettings } from '../options.ts'
import { Subscription } from './subscription.ts'

test('a topic that was deleted and created again is read from its beginning', async () => {
  const kit = receiving()
  kit.world.ids = new Map([['orders', 'first']])
  const started = kit.receiver.start()
  await kit.clock.advance(0)
  kit.join()
  await started
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
  const kit = await joined()
  kit.world.ids = new Map([['orders', 'first']])
  const look = async (): Promise<void> => {
    await kit.clock.advance(2_500)
    kit.consumers[0]?.emit('FETCH')
    await kit.clock.advance(500)
  }
  await look()
  kit.world.ids = new Map([['orders', 'second']])
  const answered = Promise.withResolvers<void>()
  kit.world.lows = () => answered.promise
  await look()
  await kit.receiver.finish()
  answered.resolve()
  await kit.clock.advance(0)
  expect(kit.logged).toMatchObject([{ fields: { topic: 'orders' } }, { level: 'debug' }])
  expect(kit.calls.filter((call) => / (seek|commit) /.test(call))).toEqual([])
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
  const look = async (): Promise<void> => {
    await kit.clock.advance(2_500)
    kit.consumers[0]?.emit('HEARTBEAT')
    await kit.clock.advance(500)
  }
  await look()
  expect(kit.consumers).toHaveLength(1)
  kit.world.isHeld = false
  await look()
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
  await kit.clock.advance(2_500)
  kit.consumers[0]?.emit('HEARTBEAT')
  await kit.clock.advance(500)
  expect(kit.calls).toContain('1 subscribe {"topics":["orders"],"fromBeginning":true}')
  kit.join()
  expect(kit.receiver.outage).toBeUndefined()
  expect(kit.receiver.notice).toBe(
    'topics that do not exist are not consumed until they are created: refunds',
  )
  expect(kit.logged).toMatchObject([{ level: 'warn', fields: { vanished: ['refunds'] } }])
})

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
