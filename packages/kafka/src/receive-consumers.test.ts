import { AssignerProtocol } from 'kafkajs'
import { expect, test } from 'vitest'
import { joined, receiving } from './fixtures/receiving.ts'

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
  await kit.clock.advance(33_000)
  await started
  expect(kit.receiver.outage).toMatchObject({ state: 'recovering' })
  kit.world.connect = async () => undefined
  await kit.clock.advance(1_000)
  kit.join()
  await kit.clock.advance(0)
  expect(kit.receiver.outage).toBeUndefined()
  expect(kit.calls).not.toContain('0 disconnect')
  connected.resolve()
  await kit.clock.advance(0)
  expect(kit.calls).toContain('0 disconnect')
  expect(kit.calls).not.toContain('1 disconnect')
})

function fail(error: Error): never {
  throw error
}
