import { ConfigurationError, type Settlement, StoreUnavailableError } from '@onceward/core'
import { expect, test } from 'vitest'
import { protocolError } from './fixtures/fetch.ts'
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
    'attach',
    '0 connect',
    'cluster undefined',
    '0 subscribe {"topics":["orders"],"fromBeginning":true}',
    expect.stringMatching(/^commit .*-1,"memberId":"",.*\{"partition":0,"offset":"99"\},/),
    '0 run {"autoCommit":false,"eachBatchAutoResolve":false,"partitionsConsumedConcurrently":3}',
  ])
  expect([isStarted, kit.receiver.lastProgressAt]).toEqual([false, undefined])
  expect(kit.receiver.outage).toEqual({ state: 'recovering', reason: 'joining the group' })
  kit.join()
  await started
  expect(kit.calls.at(-1)).toBe('joined m-1')
  expect(kit.receiver.outage).toBeUndefined()
  expect(kit.receiver.lastProgressAt).toEqual(new Date(kit.clock.nowMs))
})

test('a receiver that was stopped before its start joins no group, and says so', () => {
  const kit = receiving()
  kit.receiver.stop()
  expect(kit.receiver.outage).toBeUndefined()
})

test('health reports a store that is down, whatever the broker does', async () => {
  const kit = await joined()
  const error = new Error('no connection')
  kit.state.availability = { kind: 'down', retryAt: kit.clock.nowMs as never, error }
  expect(kit.receiver.outage).toEqual({ state: 'paused', reason: 'Error: no connection' })
})

test('events of the consumer are passed on, and count as progress', async () => {
  const kit = await joined()
  for (const event of ['FETCH', 'HEARTBEAT'] as const) {
    await kit.clock.advance(10)
    kit.consumers[0]?.emit(event)
    expect(kit.calls.at(-1)).toBe('answered')
    expect(kit.receiver.lastProgressAt).toEqual(new Date(kit.clock.nowMs))
  }
  kit.consumers[0]?.emit('REBALANCING')
  expect(kit.calls.at(-1)).toBe('rebalancing')
  await kit.clock.advance(10)
  const ack: Settlement = { kind: 'ack', by: 'processed' }
  kit.receiver.known(ack)
  expect(kit.receiver.lastProgressAt).toEqual(new Date(kit.clock.nowMs))
  expect(kit.ends).toEqual([])
})

test('a consumer that crashes is replaced by another, which first removes the old member from the group', async () => {
  const kit = await joined()
  const before = kit.calls.length
  crash(kit, closed)
  await kit.clock.advance(0)
  expect(kit.receiver.outage).toEqual({ state: 'recovering', reason: 'Error: Connection closed' })
  expect(kit.calls.slice(before)).toEqual(['left', '0 disconnect'])
  // The pause is half a second.
  await kit.clock.advance(499)
  expect(kit.consumers).toHaveLength(1)
  await kit.clock.advance(1)
  expect(kit.calls.slice(before + 2)).toEqual([
    'attach',
    '1 connect',
    'cluster undefined',
    '1 subscribe {"topics":["orders"],"fromBeginning":true}',
    'leave {"groupId":"billing","memberId":"m-1"}',
    '1 run {"autoCommit":false,"eachBatchAutoResolve":false,"partitionsConsumedConcurrently":32}',
  ])
  const late = kit.calls.length
  for (const event of ['FETCH', 'HEARTBEAT', 'REBALANCING'] as const) kit.consumers[0]?.emit(event)
  kit.consumers[0]?.emit('GROUP_JOIN', { memberId: 'm-0', memberAssignment: {} })
  expect(kit.calls.slice(late)).toEqual([])
  kit.join('m-2')
  expect(kit.receiver.outage).toBeUndefined()
})

test('pauses grow while consumers fail, and a join resets them', async () => {
  const kit = await joined()
  const pauseOf = async (fail: () => void): Promise<number> => {
    const { length } = kit.consumers
    fail()
    const beforeMs = kit.clock.nowMs
    while (kit.consumers.length === length) await kit.clock.advance(10)
    return kit.clock.nowMs - beforeMs
  }
  const pauses: number[] = []
  for (let round = 0; round < 3; round += 1) pauses.push(await pauseOf(() => crash(kit, closed)))
  kit.join()
  pauses.push(await pauseOf(() => crash(kit, closed)))
  expect(pauses).toEqual([500, 750, 1_250, 500])
  // A broker that is down is tried again sooner than one that refuses.
  kit.join()
  expect(await pauseOf(() => crash(kit, protocolError('NOT_CONTROLLER')))).toBe(100)
})

test.each(['connect', 'run'] as const)('a %s that fails is retried', async (step) => {
  const kit = receiving()
  kit.world[step] = () => Promise.reject(closed)
  await startOf(kit)
  expect(kit.receiver.outage).toEqual({ state: 'recovering', reason: 'Error: Connection closed' })
  kit.world[step] = async () => undefined
  await kit.clock.advance(500)
  kit.join()
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

test('a consumer whose store is down at the start checks it again soon', async () => {
  const kit = receiving()
  kit.world.check = () => Promise.reject(new StoreUnavailableError('no connection'))
  await startOf(kit)
  expect(kit.receiver.outage).toMatchObject({ state: 'paused' })
  await kit.clock.advance(99)
  expect(kit.calls).toEqual(['check', 'left'])
  kit.world.check = async () => undefined
  await kit.clock.advance(1)
  expect(kit.calls.slice(2, 4)).toEqual(['check', 'attach'])
})

test('a permanent error makes the start fail, or stops a running consumer', async () => {
  const kit = receiving()
  const error = new ConfigurationError('no tables')
  kit.world.check = () => Promise.reject(error)
  await expect(kit.receiver.start()).rejects.toBe(error)
  const later = await joined()
  crash(later, protocolError('INVALID_SESSION_TIMEOUT'))
  await later.clock.advance(60_000)
  expect(later.consumers).toHaveLength(1)
  expect(later.ends).toMatchObject([
    {
      kind: 'fatal',
      error: { message: expect.stringMatching(/group 'billing'.*INVALID_SESSION/) },
    },
  ])
  expect(kit.ends).toEqual([])
})

test("the user's restartOnFailure can stop the consumer", async () => {
  const goingOn = async (answer: () => Promise<boolean>) => {
    const asked: Error[] = []
    const restartOnFailure = (error: Error) => {
      asked.push(error)
      return answer()
    }
    const kit = await joined({ consumer: { retry: { restartOnFailure } } })
    crash(kit, closed)
    await kit.clock.advance(1_000)
    expect(asked).toEqual([closed])
    return [kit.consumers.length, kit.ends]
  }
  expect(await goingOn(async () => true)).toEqual([2, []])
  expect(await goingOn(() => Promise.reject(new Error('no answer')))).toEqual([2, []])
  expect(await goingOn(async () => false)).toEqual([1, [{ kind: 'fatal', error: closed }]])
})

test('a closed guard stops its consumer, and no other abandoned event does', async () => {
  const kit = await joined()
  const closing: Settlement = { kind: 'abandon', reason: 'closing' }
  kit.receiver.known({ kind: 'abandon', reason: 'deadline' })
  expect(kit.ends).toEqual([])
  kit.receiver.known(closing)
  expect(kit.ends).toEqual([{ kind: 'closed' }])
  kit.receiver.stop()
  kit.receiver.known(closing)
  expect(kit.ends).toHaveLength(1)
})

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
    kit.world.isHeld = isHeld
    for (let second = 0; second < 69; second += 1) {
      await kit.clock.advance(1_000)
      kit.consumers[0]?.emit('FETCH')
      kit.consumers[0]?.emit('HEARTBEAT', { groupGenerationId: seen.at(-1) })
    }
    expect(kit.consumers).toHaveLength(1)
    await kit.clock.advance(2_000)
    expect(kit.consumers).toHaveLength(2)
    const reasons = kit.logged.map(({ fields }) => fields['reason'])
    expect(reasons).toEqual([expect.stringMatching(/A rejoin got no answer within 70000 ms/)])
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
  expect(reasons).toEqual([expect.stringMatching(/A rejoin got no answer within 70000 ms/)])
})

test('a stop starts no new consumer, and disconnects the current one in bounded time', async () => {
  const kit = await joined()
  kit.world.disconnect = () => new Promise(() => undefined)
  kit.receiver.stop()
  expect(kit.calls).not.toContain('0 disconnect')
  const finished = kit.receiver.finish()
  await kit.clock.advance(3_000)
  await finished
  // A crash after the stop has no effect.
  crash(kit, protocolError('INVALID_SESSION_TIMEOUT'))
  await kit.clock.advance(60_000)
  expect([kit.consumers.length, kit.ends]).toEqual([1, []])
  expect(kit.calls.filter((call) => call === '0 disconnect')).toHaveLength(1)
  expect(kit.clock.timers).toBe(0)
})

test('a stop ends a pause, and a start in progress', async () => {
  const kit = receiving()
  kit.world.connect = () => Promise.reject(closed)
  await startOf(kit)
  expect(kit.clock.timers).toBe(1)
  await kit.receiver.finish()
  await kit.clock.advance(60_000)
  expect([kit.consumers.length, kit.clock.timers]).toEqual([1, 0])
  const starting = receiving()
  const checked = Promise.withResolvers<void>()
  starting.world.check = () => checked.promise
  const started = starting.receiver.start()
  await starting.receiver.finish()
  checked.resolve()
  await started
  expect(starting.calls).toEqual(['check', 'left'])
})

// Red when the consumer is not disconnected: its socket would keep the process alive.
test('a consumer that connects after the stop is disconnected', async () => {
  const kit = receiving()
  const connected = Promise.withResolvers<void>()
  kit.world.connect = () => connected.promise
  const started = kit.receiver.start()
  await kit.clock.advance(0)
  await kit.receiver.finish()
  connected.resolve()
  await started
  expect(kit.calls.slice(2)).toEqual(['0 connect', '0 disconnect', '0 disconnect', 'left'])
})
