import type { Settlement } from '@onceward/core'
import { expect, test } from 'vitest'
import { TopicPublishers } from './dead-letter.ts'
import { dispatching as setUp } from './fixtures/dispatching.ts'

const producer = (sent: unknown[]) => ({
  send: async (record: unknown) => {
    sent.push(record)
    return [{ topicName: 'orders.dead', partition: 0, errorCode: 0 }]
  },
})
const dead: Settlement = { kind: 'dead-letter', reason: 'fatal' }

test('a dead letter is sent with its reason before the offset passes its record', async () => {
  const sent: unknown[] = []
  const deadLetter = { producer: producer(sent), topic: 'orders.dead' }
  const kit = setUp({}, { deadLetter })
  const batch = kit.fetch(0, 'a')
  kit.dispatcher.pump()
  kit.settle('0/40', dead)
  await kit.clock.advance(0)
  expect(sent).toMatchObject([
    { topic: 'orders.dead', messages: [{ headers: { 'x-onceward-reason': 'fatal' } }] },
  ])
  expect(batch.progress.isComplete).toBe(true)
})

test('a record without a dead-letter topic is passed, because the store keeps the dead letter', async () => {
  const kit = setUp()
  const batch = kit.fetch(0, 'a')
  kit.dispatcher.pump()
  kit.settle('0/40', dead)
  await kit.clock.advance(0)
  expect([batch.progress.isComplete, kit.logged]).toEqual([true, []])
  new TopicPublishers(kit.port, { deadLetter: undefined }, { clusterId: undefined }).register([
    'orders',
  ])
  expect(kit.publishers.size).toBe(0)
})

test('each topic has one publisher for the poller, until the consumer ends', () => {
  const deadLetter = { producer: producer([]), topic: 'orders.dead' }
  const kit = setUp()
  const publishers = new TopicPublishers(kit.port, { deadLetter }, { clusterId: undefined })
  const registered: string[] = []
  const { registerPublisher } = kit.port
  Object.assign(kit.port, {
    registerPublisher: (...args: Parameters<typeof registerPublisher>) => {
      registered.push(args[0].queue)
      return registerPublisher(...args)
    },
  })
  publishers.register(['orders'])
  publishers.register(['orders', 'refunds'])
  expect(registered).toEqual(['orders', 'refunds'])
  publishers.close()
  expect([...kit.publishers.keys()]).toEqual([])
  // It may run again.
  publishers.register(['orders'])
  expect([...kit.publishers.keys()]).toEqual(['orders'])
})
