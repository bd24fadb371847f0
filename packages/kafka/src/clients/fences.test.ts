import type { PartitionFence } from '@onceward/core/ports'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { Fences } from './fences.ts'

const ORDERS = { topic: 'orders', partition: 0 }
const TOPIC = { clusterId: 'c', topicId: 't' }

/** A partition that the inbox has processed up to 40. */
function claimed(oldest = 0) {
  const fence = { from: 40, isLost: false } as PartitionFence
  const { port } = handMadeGuard()
  const over: string[] = []
  const fences = new Fences({
    port: { logger: port.logger, claimPartition: async () => fence },
    ...{ groupId: 'g', seek: () => undefined, oldest: async () => oldest },
    onOver: ({ message }) => over.push(message),
  })
  const at = async (position: number, next: number, end = 100) => {
    const answer = await fences.at(ORDERS, TOPIC, { position, next, end })
    return answer.kind === 'seek' ? answer.offset : answer.kind
  }
  return { at, over }
}

test('a partition is read from where the inbox says, wherever the group is', async () => {
  const { at, over } = claimed()
  expect([await at(60, 70), await at(40, 50), await at(50, 60)]).toEqual([40, 'read', 'read'])
  const behind = claimed()
  expect([await behind.at(20, 45), await behind.at(45, 50)]).toEqual(['read', 'read'])
  expect([...over, ...behind.over]).toEqual([])
})

// Red when a client that does not stop at an offset is taken to have lost it: it leaves out whole aborted transactions.
test('offsets that no consumer sees are passed after a second look', async () => {
  const { at, over } = claimed()
  expect([await at(60, 70), await at(60, 70), await at(80, 90), await at(80, 90)]).toEqual([
    ...[40, 'read', 70, 'read'],
  ])
  expect(over).toEqual([])
})

test('records that retention has deleted are not passed, at the start or later', async () => {
  const atStart = claimed(60)
  expect(await atStart.at(60, 70)).toBe('later')
  expect(atStart.over).toEqual([expect.stringContaining('onceward offsets reset --to 60')])
  const later = claimed(60)
  expect([await later.at(40, 50), await later.at(60, 70)]).toEqual(['read', 'later'])
  expect(later.over).toEqual([expect.stringContaining('no record 50')])
})

test('a log that has lost its end is not read', async () => {
  const { at, over } = claimed()
  expect(await at(20, 30, 30)).toBe('later')
  expect(over).toEqual([expect.stringContaining('ends at 30')])
})
