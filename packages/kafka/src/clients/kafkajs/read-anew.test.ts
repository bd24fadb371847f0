import { expect, test } from 'vitest'
import { protocolError } from '../../fixtures/fetch.ts'
import { knowing, look } from '../../fixtures/looking.ts'

const REWOUND = / seek |^commit /

const LOWS = {
  topic: 'orders',
  partitions: [0, 1].map((partition) => ({ partition, offset: '7' })),
}

test('a topic that was deleted and created again is read from its beginning', async () => {
  const kit = await knowing()
  expect(kit.calls).toContain('cluster cluster-1')
  const before = kit.calls.length
  kit.world.ids = new Map([['orders', 'second']])
  await kit.clock.advance(1_500)
  kit.consumers[0]?.emit('HEARTBEAT')
  await kit.clock.advance(1_500)
  expect(kit.calls.slice(before + 1)).toEqual([
    '0 seek {"topic":"orders","partition":0,"offset":"7"}',
    'rewind {"topic":"orders","partition":0,"offset":"7"}',
    '0 seek {"topic":"orders","partition":1,"offset":"7"}',
    'rewind {"topic":"orders","partition":1,"offset":"7"}',
    // Red when the group keeps the offset of the old topic: a crash or a rebalance would skip what is below it.
    `commit ${JSON.stringify({ groupId: 'billing', groupGenerationId: 1, memberId: 'm-1', topics: [LOWS] })}`,
    'rewound {"topic":"orders","partition":0,"offset":"7"}',
    'rewound {"topic":"orders","partition":1,"offset":"7"}',
  ])
  expect(kit.logged).toMatchObject([
    { level: 'warn', fields: { group: 'billing', topics: ['orders'], topic: 'orders' } },
  ])
})

// Red when they stay paused, or when the next look takes them for read: the group keeps the offset of the old topic.
test('partitions of a topic that was created again are rewound again if their offset was not committed', async () => {
  const kit = await knowing()
  kit.world.ids = new Map([['orders', 'second']])
  kit.world.owned = [0]
  kit.world.commit = () => Promise.reject(protocolError('ILLEGAL_GENERATION'))
  const before = kit.calls.length
  const seen = (): readonly string[] =>
    kit.calls
      .slice(before)
      .flatMap((call) => /^(?:\d )?(seek|rew\w+|commit) /.exec(call)?.[1] ?? [])
  await look(kit)
  expect(seen()).toEqual(['seek', 'rewind', 'commit', 'rewound'])
  kit.world.commit = async () => undefined
  await look(kit)
  await look(kit)
  expect(seen().slice(4)).toEqual(['seek', 'rewind', 'commit', 'rewound'])
})

// Red when they are rewound in the name of an earlier generation, or of none: the broker refuses the commit.
test('partitions of a topic that was created again wait for a heartbeat of the new generation', async () => {
  const kit = await knowing()
  kit.world.ids = new Map([['orders', 'second']])
  kit.join('m-2')
  await kit.clock.advance(2_000)
  kit.consumers[0]?.emit('FETCH')
  await kit.clock.advance(1_000)
  expect(kit.calls.filter((call) => REWOUND.test(call))).toEqual([])
  kit.consumers[0]?.emit('HEARTBEAT', { memberId: 'm-2', groupGenerationId: 2 })
  await kit.clock.advance(1_500)
  kit.consumers[0]?.emit('FETCH')
  await kit.clock.advance(1_500)
  const [commit = ''] = kit.calls.filter((call) => call.startsWith('commit'))
  expect(commit).toContain('"groupGenerationId":2,"memberId":"m-2"')
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
    ...['1 seek', '1 seek', 'commit'],
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
  expect(kit.calls.filter((call) => REWOUND.test(call))).toEqual([
    expect.stringMatching(/^commit .*"topics":\[\]/),
  ])
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
