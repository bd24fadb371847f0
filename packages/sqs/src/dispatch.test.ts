import type { Settlement } from '@onceward/core'
import { expect, test } from 'vitest'
import { answer, type Receiving, receiving } from './fixtures/receiving.ts'

const ack: Settlement = { kind: 'ack', by: 'processed' }
const queueUrl = 'http://127.0.0.1/000000000000/orders'

const sizes = ({ dispatcher: { capacity, room, worthwhile } }: Receiving) => [
  ...[capacity, room, worthwhile],
]

test('many slots prefetch as many messages again, and batches prefetch one batch', async () => {
  const batches = { queueUrl, batch: { size: 5, lingerMs: 0 } }
  const many = await receiving({ queueUrl }, { concurrency: 30 }).started()
  const batch = await receiving(batches, { concurrency: 3, transaction: 'batch' }).started()
  expect(batch.dispatcher.capacity).toBe(15)
  for (const kit of [many, batch]) {
    kit.state.decide = () => ack
    await answer(kit, 'a')
    await kit.clock.advance(100)
  }
  expect([many.dispatcher.capacity, many.dispatcher.worthwhile]).toEqual([60, 10])
  expect([batch.dispatcher.capacity, batch.dispatcher.worthwhile]).toEqual([20, 5])
})

// Red when messages in settlement are not counted: they would fill the memory if SQS answers only receives.
test('receiving pauses while SQS leaves very many settlements without an answer', async () => {
  const kit = await receiving({ queueUrl }, { concurrency: 1 }).started()
  kit.recording.answers.set('delete', () => new Promise(() => undefined))
  kit.state.decide = () => ack
  // Twice as many as may be in hand, and fifty.
  for (let count = 0; count < 54; count += 1) await answer(kit, `m${count}`)
  expect(sizes(kit)).toEqual([2, 2, 1])
  await answer(kit, 'last')
  expect([...sizes(kit), kit.dispatcher.inFlight]).toEqual([2, 0, 1, 55])
})

test('a group occupies one slot until its last message has a result', async () => {
  const kit = await receiving({}, { concurrency: 1 }).started()
  await answer(kit, 'a1', 'b1', 'a2')
  expect(kit.run()).toEqual(['a1', 'a2'])
  await kit.settle('a1')
  expect(kit.run()).toEqual(['a1', 'a2'])
  await kit.settle('a2')
  expect(kit.run()).toEqual(['a1', 'a2', 'b1'])
})

test('the group that has waited longest probes the store, without a pause, and in its order', async () => {
  const kit = await receiving({}, { concurrency: 4 }).started()
  await answer(kit, 'a1', 'b1', 'b2')
  for (const name of ['b2', 'b1', 'a1']) await kit.settle(name, kit.down(100))
  expect(kit.run()).toHaveLength(3)
  await kit.clock.advance(100)
  expect(kit.run().slice(3)).toEqual(['b1', 'b2'])
  await kit.settle('b1', kit.down(0))
  expect(kit.run().slice(5)).toEqual(['a1'])
})

// Red before: a message whose rest was over started while the next of its group still rested, and both ran at once.
test('messages of a group that waited for the store run again together, in their order', async () => {
  const kit = await receiving({}, { concurrency: 4 }).started()
  await answer(kit, 'a1', 'a2', 'b1')
  for (const name of ['a2', 'a1', 'b1']) await kit.settle(name, kit.down(60_000))
  kit.state.availability = { kind: 'available' }
  kit.dispatcher.pump()
  await kit.clock.advance(2_000)
  expect([kit.run().slice(3), kit.batches.slice(1)]).toEqual([
    ['a1', 'a2', 'b1'],
    [2, 1],
  ])
})

// Red when the message is resumed: another consumer may have it before its handler starts.
test.each([
  [27_990, ['a1'], 1],
  [28_010, [], 0],
])(
  'a message that becomes visible in two seconds is left to its next receive: after %i ms',
  async (elapsedMs, again, inFlight) => {
    const kit = await receiving().started()
    await answer(kit, 'a1')
    const retry = kit.down(elapsedMs)
    await kit.settle('a1', retry)
    await kit.clock.advance(elapsedMs - 10)
    expect([kit.run().slice(1), kit.dispatcher.inFlight]).toEqual([again, inFlight])
  },
)
