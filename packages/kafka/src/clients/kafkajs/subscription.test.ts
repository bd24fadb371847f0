import { handMadeGuard } from '@onceward/testing/adapter'
import type { Consumer } from 'kafkajs'
import { expect, test } from 'vitest'
import { protocolError } from '../../fixtures/fetch.ts'
import { look } from '../../fixtures/looking.ts'
import { receiving } from '../../fixtures/receiving.ts'
import { resolveConsumerSettings } from '../../options.ts'
import { Subscription } from './subscription.ts'

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
    ...{ isAnswered: () => true, member: () => undefined, onChanged: () => undefined },
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
    ...{ batches: {} as never, fields: {}, isAnswered: () => true },
    ...{ member: () => undefined, onChanged: () => undefined },
  })
  for (const denied of [['refunds'], ['refunds'], ['refunds', 'stock'], ['stock'], ['refunds']]) {
    subscription.unassigned(denied)
  }
  const topics = logged.map(({ fields }) => Reflect.get(fields, 'denied'))
  expect(topics).toEqual([['refunds'], ['refunds', 'stock'], ['refunds']])
})
