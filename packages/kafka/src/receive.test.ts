import { expect, test } from 'vitest'
import { joined, type Receiving, receiving } from './fixtures/receiving.ts'

const crash = (kit: Receiving, error: Error): void => kit.consumers.at(-1)?.emit('CRASH', { error })
const closed = new Error('Connection closed')

test('the start checks, connects, subscribes and runs, and ends when the group is joined', async () => {
  const kit = receiving({ fromBeginning: false, partitionsConsumedConcurrently: 3 })
  let isStarted = false
  const started = kit.receiver.start().then(() => {
    isStarted = true
  })
  await kit.clock.advance(1_000)
  expect(kit.calls).toEqual([
    'check',
    '0 connect',
    '0 subscribe {"topics":["orders"],"fromBeginning":true}',
    expect.stringMatching(/^commit .*-1,"memberId":"",.*\{"partition":0,"offset":"99"\},/),
    '0 subscribe {"topics":["orders"],"fromBeginning":true}',
    '0 run {"autoCommit":false,"eachBatchAutoResolve":false,"partitionsConsumedConcurrently":3}',
  ])
  expect([isStarted, kit.receiver.lastProgressAt]).toEqual([false, undefined])
  expect(kit.receiver.outage).toEqual({ state: 'recovering', reason: 'joining the group' })
  kit.join()
  await started
  expect(kit.receiver.outage).toBeUndefined()
  expect(kit.receiver.lastProgressAt).toEqual(new Date(kit.clock.nowMs))
})

test('health reports a store that is down, whatever the broker does', async () => {
  const kit = await joined()
  const error = new Error('no connection')
  kit.state.availability = { kind: 'down', retryAt: kit.clock.nowMs as never, error }
  expect(kit.receiver.outage).toEqual({ state: 'paused', reason: 'Error: no connection' })
})

test('a consumer that crashes is replaced by another, which first removes the old member from the group', async () => {
  const kit = await joined()
  const before = kit.calls.length
  crash(kit, closed)
  await kit.clock.advance(0)
  expect(kit.receiver.outage).toEqual({ state: 'recovering', reason: 'Error: Connection closed' })
  expect(kit.calls.slice(before)).toEqual(['0 disconnect'])
  // The pause is half a second.
  await kit.clock.advance(499)
  expect(kit.consumers).toHaveLength(1)
  await kit.clock.advance(1)
  expect(kit.calls.slice(before + 1)).toEqual([
    '1 connect',
    'leave {"groupId":"billing","memberId":"m-1"}',
    '1 subscribe {"topics":["orders"],"fromBeginning":true}',
    '1 run {"autoCommit":false,"eachBatchAutoResolve":false,"partitionsConsumedConcurrently":32}',
  ])
  const late = kit.calls.length
  for (const event of ['FETCH', 'HEARTBEAT', 'REBALANCING'] as const) kit.consumers[0]?.emit(event)
  kit.consumers[0]?.emit('GROUP_JOIN', { memberId: 'm-0', memberAssignment: {} })
  expect(kit.calls.slice(late)).toEqual([])
  kit.join('m-2')
  await kit.clock.advance(0)
  expect(kit.receiver.outage).toBeUndefined()
})

test.each(['connect', 'run'] as const)('a %s that fails is retried', async (step) => {
  const kit = receiving()
  kit.world[step] = () => Promise.reject(closed)
  await startOf(kit)
  expect(kit.receiver.outage).toEqual({ state: 'recovering', reason: 'Error: Connection closed' })
  kit.world[step] = async () => undefined
  await kit.clock.advance(500)
  kit.join()
  await kit.clock.advance(0)
  expect([kit.receiver.outage, kit.consumers.length]).toEqual([undefined, 2])
  // A check that succeeded is not repeated.
  expect(kit.calls.filter((call) => call === 'check')).toHaveLength(1)
})

/** A start that does not wait for the group, because it fails before. */
async function startOf(kit: Receiving): Promise<void> {
  const started = kit.receiver.start()
  await kit.clock.advance(0)
  await started
}

test('a silent consumer is replaced', async () => {
  const kit = await joined()
  await kit.clock.advance(60_000)
  kit.consumers[0]?.emit('HEARTBEAT')
  await kit.clock.advance(69_000)
  expect(kit.consumers).toHaveLength(1)
  await kit.clock.advance(2_000)
  expect(kit.consumers).toHaveLength(2)
  const reasons = kit.logged.map(({ fields }) => fields['reason'])
  expect(reasons).toEqual([expect.stringMatching(/Fetches and heartbeats got no answer/)])
})

// Red when its answers count: kafkajs goes on with its old partitions after a lost join, and those of the last one stand
// still.
test.each([
  ['after a rebalance', true, [1]],
  ['with heartbeats of another generation', false, [1, 2]],
])(
  'a consumer that goes on %s, without having joined, is replaced',
  async (_what, isHeld, seen) => {
    const kit = await joined()
    for (const groupGenerationId of seen) {
      kit.consumers[0]?.emit('HEARTBEAT', { groupGenerationId })
    }
    if (isHeld) kit.consumers[0]?.emit('REBALANCING')
    for (let second = 0; second < 69; second += 1) {
      await kit.clock.advance(1_000)
      kit.consumers[0]?.emit('FETCH')
      kit.consumers[0]?.emit('HEARTBEAT', { groupGenerationId: seen.at(-1) })
    }
    expect(kit.consumers).toHaveLength(1)
    await kit.clock.advance(2_000)
    expect(kit.consumers).toHaveLength(2)
    const reasons = kit.logged.map(({ fields }) => fields['reason'])
    expect(reasons).toEqual([
      expect.stringMatching(/Fetches and heartbeats got no answer within 70000 ms/),
    ])
  },
)

// Red when they count: kafkajs fetches on for ever after the broker has forgotten its member and a join has failed.
test('a consumer that fetches without heartbeats is replaced', async () => {
  const kit = await joined()
  for (let second = 0; second < 79; second += 1) {
    await kit.clock.advance(1_000)
    kit.consumers[0]?.emit('FETCH')
  }
  expect(kit.consumers).toHaveLength(1)
  await kit.clock.advance(2_000)
  expect(kit.consumers).toHaveLength(2)
  const reasons = kit.logged.map(({ fields }) => fields['reason'])
  expect(reasons).toEqual([
    expect.stringMatching(/Fetches and heartbeats got no answer within 70000 ms/),
  ])
})

// Red when the consumer is not disconnected: its socket would keep the process alive.
test('a consumer that connects after the stop is disconnected', async () => {
  const kit = receiving()
  const connected = Promise.withResolvers<void>()
  kit.world.connect = () => connected.promise
  const started = kit.receiver.start()
  await kit.clock.advance(0)
  const finished = kit.receiver.finish()
  await kit.clock.advance(3_000)
  await finished
  expect(kit.calls.at(-1)).toBe('0 connect')
  connected.resolve()
  await started
  expect(kit.calls.at(-1)).toBe('0 disconnect')
})
