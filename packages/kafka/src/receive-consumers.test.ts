import { StoreUnavailableError } from '@onceward/core'
import { AssignerProtocol } from 'kafkajs'
import { expect, test } from 'vitest'
import { protocolError } from './fixtures/fetch.ts'
import { joined, type Receiving, receiving } from './fixtures/receiving.ts'

const closed = new Error('Connection closed')
const crash = (kit: Receiving, error: Error): void => kit.consumers.at(-1)?.emit('CRASH', { error })

/** Names of the calls, without their arguments. */
const namesOf = ({ calls }: Receiving): readonly string[] =>
  calls.map((call) => call.split(' ').slice(0, 2).join(' '))

// Red when the consumer runs, because nothing would drain it; and when it is disconnected at once, because requests that
// follow would open connections that nobody closes.
test('a stop while the consumer subscribes prevents its run, and disconnects it afterwards', async () => {
  const kit = receiving()
  const subscribed = Promise.withResolvers<void>()
  kit.world.subscribe = () => subscribed.promise
  const started = kit.receiver.start()
  await kit.clock.advance(0)
  const finished = kit.receiver.finish()
  await kit.clock.advance(0)
  expect(namesOf(kit)).not.toContain('0 disconnect')
  subscribed.resolve()
  await Promise.all([started, finished])
  expect(namesOf(kit).slice(2)).toEqual([
    ...['0 connect', 'cluster undefined', '0 subscribe', '0 disconnect', 'left'],
  ])
  expect(kit.clock.timers).toBe(0)
})

// Red when it is disconnected at once: kafkajs would let it join all the same, and nobody could end that member.
test.each<[string, (run: PromiseWithResolvers<void>) => void]>([
  ['has joined', ({ resolve }) => resolve()],
  ['could not join', ({ reject }) => reject(new Error('no'))],
])('a consumer that joins its group is disconnected only when it %s', async (_what, end) => {
  const kit = receiving()
  const run = Promise.withResolvers<void>()
  kit.world.run = () => run.promise
  void kit.receiver.start()
  await kit.clock.advance(0)
  const finished = kit.receiver.finish()
  await kit.clock.advance(3_000)
  await finished
  expect(kit.calls).not.toContain('0 disconnect')
  end(run)
  await kit.clock.advance(0)
  expect(kit.calls).toContain('0 disconnect')
})

test('the consumer after one that hangs while it joins does not wait for it', async () => {
  const kit = receiving()
  kit.world.run = () => {
    kit.world.run = async () => undefined
    return new Promise(() => undefined)
  }
  void kit.receiver.start()
  await kit.clock.advance(80_000)
  kit.join('m-2')
  await kit.receiver.finish()
  expect(kit.calls.filter((call) => call.endsWith(' disconnect'))).toEqual(['1 disconnect'])
})

test('a stop while restartOnFailure is pending starts no pause', async () => {
  const answered = Promise.withResolvers<boolean>()
  const kit = await joined({ consumer: { retry: { restartOnFailure: () => answered.promise } } })
  crash(kit, closed)
  await kit.clock.advance(0)
  kit.receiver.stop()
  answered.resolve(true)
  await kit.clock.advance(0)
  expect([kit.consumers.length, kit.clock.timers, kit.ends]).toEqual([1, 0, []])
})

test('a permanent refusal of the broker stops the consumer with that error as its cause, and the log names group and topics', async () => {
  const kit = await joined()
  const refusal = protocolError('INVALID_SESSION_TIMEOUT')
  crash(kit, closed)
  await kit.clock.advance(0)
  expect(kit.logged).toMatchObject([{ fields: { group: 'billing', topics: ['orders'] } }])
  await kit.clock.advance(500)
  kit.join()
  crash(kit, refusal)
  await kit.clock.advance(0)
  expect(kit.ends).toMatchObject([{ error: { code: 'ONCEWARD_CONFIGURATION', cause: refusal } }])
})

test('the old member leaves the group once, and again if that failed', async () => {
  const kit = await joined()
  const leaves = () => kit.calls.filter((call) => call.startsWith('leave')).length
  kit.world.leave = () => Promise.reject(protocolError('COORDINATOR_NOT_AVAILABLE'))
  const counts: number[] = []
  for (let round = 0; round < 3; round += 1) {
    crash(kit, closed)
    await kit.clock.advance(10_000)
    counts.push(leaves())
    if (round === 0) kit.world.leave = async () => undefined
  }
  expect(counts).toEqual([1, 2, 2])
})

test('a consumer without access to the cluster consumes as well', async () => {
  const kit = receiving()
  kit.world.hasCluster = false
  void kit.receiver.start()
  await kit.clock.advance(0)
  expect(namesOf(kit)).toEqual(['check', 'attach', '0 connect', '0 subscribe', '0 run'])
})

test('the topics are not checked while the broker is silent', async () => {
  const kit = receiving()
  kit.world.ids = new Map([['orders', 'first']])
  void kit.receiver.start()
  await kit.clock.advance(0)
  kit.join()
  kit.world.ids = new Map([['orders', 'second']])
  const seeks = () => kit.calls.filter((call) => call.includes('seek')).length
  // Silent for three seconds at the first look, for two at the second.
  await kit.clock.advance(4_000)
  kit.consumers[0]?.emit('HEARTBEAT')
  await kit.clock.advance(2_000)
  expect(seeks()).toBe(0)
  await kit.clock.advance(1_001)
  kit.consumers[0]?.emit('HEARTBEAT')
  await kit.clock.advance(1_999)
  expect(seeks()).toBe(2)
})

test('a join resets the watchdog', async () => {
  const kit = receiving()
  void kit.receiver.start()
  await kit.clock.advance(60_000)
  kit.join()
  await kit.clock.advance(60_000)
  expect(kit.consumers).toHaveLength(1)
  await kit.clock.advance(12_000)
  expect(kit.consumers).toHaveLength(2)
})

test('health reports the current cause of a wait, the store or the broker', async () => {
  const kit = receiving()
  kit.world.check = () => Promise.reject(new StoreUnavailableError('gone'))
  const started = kit.receiver.start()
  await kit.clock.advance(0)
  await started
  kit.world.check = () => Promise.reject(closed)
  await kit.clock.advance(100)
  expect(kit.receiver.outage).toEqual({ state: 'recovering', reason: 'Error: Connection closed' })
  expect(kit.logged.map(({ fields }) => fields['state'])).toEqual(['paused', 'recovering'])
})

// Red when the answer is taken for a promise: the TypeError would be an unhandled rejection, which ends the process.
test.each([
  ['throws', () => fail(new Error('no'))],
  ['rejects', () => Promise.reject(new Error('no'))],
  ['answers no promise', () => true as never],
])('a restartOnFailure that %s lets the next consumer follow', async (_what, restartOnFailure) => {
  const kit = await joined({ consumer: { retry: { restartOnFailure } } })
  kit.consumers[0]?.emit('CRASH', { error: new Error('Connection closed') })
  await kit.clock.advance(1_000)
  expect(kit.calls).toContain('1 connect')
})

test('health tells why nothing is received while restartOnFailure is pending', async () => {
  const restartOnFailure = (): Promise<boolean> => new Promise(() => undefined)
  const kit = await joined({ consumer: { retry: { restartOnFailure } } })
  kit.consumers[0]?.emit('CRASH', { error: new Error('Connection closed') })
  await kit.clock.advance(0)
  expect(kit.receiver.outage).toEqual({ state: 'recovering', reason: 'Error: Connection closed' })
})

// Red when a leader that has consumed ends for a newcomer, and when a newcomer shares the group that it leads.
test('trap T39: a leader refuses a group of two consumers until it has had partitions', async () => {
  const kit = receiving()
  const started = kit.receiver.start()
  await kit.clock.advance(0)
  const cluster = { findTopicPartitionMetadata: () => [{ partitionId: 0 }] }
  const [toAssigner] = kit.consumers[0]?.config.partitionAssigners ?? []
  const assigner = toAssigner?.({ cluster, groupId: '', logger: undefined } as never)
  const userData = Buffer.from('onceward:shipping')
  const sent = { version: 1, topics: ['orders'], userData }
  const memberMetadata = AssignerProtocol.MemberMetadata.encode(sent)
  const assign = async () =>
    assigner?.assign({ members: [{ memberId: 'm-1', memberMetadata }], topics: ['orders'] })
  await expect(assign()).rejects.toThrow(/'billing' would get a part/)
  kit.join()
  await started
  expect(await assign()).toHaveLength(1)
})

// Red when nothing bounds the time: an `oauthBearerProvider` that never answers would stop the consumer for good.
test('a consumer that never connects is replaced, and disconnected should it connect after all', async () => {
  const kit = receiving()
  const connected = Promise.withResolvers<void>()
  kit.world.connect = () => connected.promise
  const started = kit.receiver.start()
  await kit.clock.advance(70_000)
  await started
  expect(kit.receiver.outage).toMatchObject({ state: 'recovering' })
  kit.world.connect = async () => undefined
  await kit.clock.advance(1_000)
  kit.join()
  expect(kit.receiver.outage).toBeUndefined()
  connected.resolve()
  await kit.clock.advance(0)
  expect(kit.calls.filter((call) => call === '0 disconnect')).toHaveLength(2)
  expect(kit.calls).not.toContain('1 disconnect')
})

test('a store that is down is no failure about which restartOnFailure is asked', async () => {
  const asked: Error[] = []
  const restartOnFailure = async (error: Error): Promise<boolean> => {
    asked.push(error)
    return false
  }
  const kit = receiving({ consumer: { retry: { restartOnFailure } } })
  kit.world.check = () => Promise.reject(new StoreUnavailableError('gone'))
  const started = kit.receiver.start()
  await kit.clock.advance(0)
  await started
  expect([asked, kit.receiver.outage?.state]).toEqual([[], 'paused'])
})

test('a join tells of which topics the consumer has partitions', async () => {
  const kit = await joined()
  expect(kit.topics).toEqual([['orders']])
})

/** A consumer that follows one that ended because it may not read its topic. */
async function refused(): Promise<Receiving> {
  const kit = await joined()
  const denied = protocolError('TOPIC_AUTHORIZATION_FAILED')
  kit.world.fetch = () => Promise.reject(denied)
  crash(kit, denied)
  while (!kit.calls.some((call) => call.startsWith('1 run'))) await kit.clock.advance(100)
  kit.join('m-2')
  await kit.clock.advance(0)
  return kit
}

test('partitions that cannot be read are paused, named by health and read again, until the consumer stops', async () => {
  const kit = await refused()
  const verbs = () => namesOf(kit).filter((name) => /pause|resume/.test(name))
  expect(verbs()).toEqual(['1 pause', '1 pause'])
  expect(kit.receiver.notice).toMatch("Topic 'orders' waits")
  expect(kit.logged.at(-1)).toMatchObject({ level: 'error', fields: { group: 'billing' } })
  kit.world.fetch = async () => ({ responses: [] })
  await kit.clock.advance(3_000)
  expect(verbs().slice(2)).toEqual(['1 resume', '1 resume'])
  expect(kit.receiver.notice).toBeUndefined()
})

test('a stop ends the checks of partitions that cannot be read', async () => {
  const kit = await refused()
  await kit.receiver.finish()
  expect(kit.clock.timers).toBe(0)
})

test('records that were deleted before they were read are logged', async () => {
  const kit = await joined()
  const place = { topic: 'orders', partition: 1 }
  const gone = Object.assign(new Error('gone'), { name: 'KafkaJSOffsetOutOfRange', ...place })
  kit.world.fetch = () => Promise.reject(gone)
  const broker = await (kit.cluster as unknown as Brokers).findBroker({ nodeId: '1' })
  await expect(broker.fetch()).rejects.toBe(gone)
  expect(kit.logged).toMatchObject([{ level: 'error', fields: { group: 'billing', ...place } }])
})

interface Brokers {
  findBroker(node: { readonly nodeId: string }): Promise<{ fetch(): Promise<object> }>
}

test('a leader logs the topics of other members that it may not describe', async () => {
  const kit = await joined()
  const cluster = {
    addTargetTopic: () => Promise.reject(protocolError('TOPIC_AUTHORIZATION_FAILED')),
    findTopicPartitionMetadata: () => [{ partitionId: 0 }],
  }
  const [toAssigner] = kit.consumers[0]?.config.partitionAssigners ?? []
  const assigner = toAssigner?.({ cluster, groupId: '', logger: undefined } as never)
  const members = [['orders'], ['orders', 'refunds']].map((topics, index) => {
    const sent = { version: 1, topics, userData: Buffer.of() }
    return {
      memberId: `m-${index}`,
      memberMetadata: AssignerProtocol.MemberMetadata.encode(sent),
    }
  })
  await assigner?.assign({ members, topics: ['orders'] })
  expect(kit.logged).toMatchObject([{ level: 'error', fields: { denied: ['refunds'] } }])
})

function fail(error: Error): never {
  throw error
}
