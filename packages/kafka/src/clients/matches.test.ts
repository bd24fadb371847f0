import { expect, test } from 'vitest'
import { matches } from './matches.ts'

test('a pattern with the flag g matches every topic', () => {
  const pattern = /^orders/g
  const topics = ['orders', 'orders-2', 'other']
  expect(topics.map((topic) => matches(pattern, topic))).toEqual([true, true, false])
})

// Red when they match: each commit of the consumer is then a record that it consumes, and dead-letters.
test('a pattern matches no topic of Kafka itself; its name does', () => {
  for (const topic of ['__consumer_offsets', '__transaction_state', '__share_group_state']) {
    expect([matches(/./, topic), matches(/^__/, topic), matches(topic, topic)]).toEqual([
      false,
      false,
      true,
    ])
  }
  expect(matches(/^__/, '__consumer_offsets_of_ours')).toBe(true)
})
