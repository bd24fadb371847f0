import { createGuard } from '@onceward/core'
import { portOf } from '@onceward/core/adapter'
import { memoryInbox } from '@onceward/core/memory'
import { expect, test } from 'vitest'
import { claimOf } from './fences.ts'

const ORDERS = { topic: 'orders', partition: 3 }
const TOPIC = { clusterId: 'c', topicId: 't' }
const RESET = 'npx onceward offsets reset --consumer billing --topic orders --partition 3 --to 7'

function setUp(inbox = memoryInbox()) {
  const guard = createGuard({ consumer: 'billing', inbox }, () => undefined)
  const port = portOf(guard)
  return { [Symbol.asyncDispose]: () => guard.close(), groupId: 'billing', port }
}

test('a partition is claimed, and its events have the id of its topic in their keys', async () => {
  await using of = setUp()
  const fence = await claimOf(of, ORDERS, TOPIC, 7)
  if ('refusal' in fence) throw new Error(fence.refusal)
  expect([fence.from, fence.isFirst, fence.keyOf(9)]).toEqual([7, true, 't/3/1/9'])
})

test.each([
  [{ ...TOPIC, clusterId: 'other' }, 'those are of cluster c, and this one is other, where'],
  [{ ...TOPIC, topicId: 'other' }, 'the topic was deleted and created again, and its'],
])('the partition of %j is refused, with what to run', async (topic, why) => {
  await using of = setUp()
  await claimOf(of, ORDERS, TOPIC, 7)
  const refused = await claimOf(of, ORDERS, topic, 7)
  if (!('refusal' in refused)) throw new Error('it was claimed')
  expect(refused.refusal).toContain(
    "Partition 3 of topic 'orders' is not the one whose offsets consumer 'billing' has stored: ",
  )
  expect(refused.refusal).toContain(why)
  expect(refused.refusal).toContain(`${RESET.slice(0, -1)}0`)
})

test('a partition of another group is a mistake of the configuration', async () => {
  await using of = setUp()
  await claimOf(of, ORDERS, TOPIC, 7)
  const claiming = claimOf({ ...of, groupId: 'other' }, ORDERS, TOPIC, 7)
  await expect(claiming).rejects.toThrow(
    "those are of group 'billing', and this consumer is in group 'other'. Two groups of one consumer",
  )
  await expect(claiming).rejects.toThrow(RESET)
})

test('without the ids of topics, or an inbox that keeps offsets, nothing is claimed', async () => {
  await using of = setUp()
  const unknown = claimOf(of, ORDERS, { ...TOPIC, topicId: undefined }, 7)
  await expect(unknown).rejects.toThrow('Use Kafka 3.1 or newer')
  const port: typeof of.port = { ...of.port, claimPartition: async () => ({ kind: 'no-offsets' }) }
  const claiming = claimOf(
    { groupId: 'billing', port: { ...port, settings: of.port.settings } },
    ORDERS,
    TOPIC,
    7,
  )
  await expect(claiming).rejects.toThrow("`identity: 'offsets'` needs an inbox in Postgres")
})
