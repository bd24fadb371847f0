import { expect, test } from 'vitest'
import { matches } from './matches.ts'

test('a pattern with the flag g matches every topic', () => {
  const pattern = /^orders/g
  const topics = ['orders', 'orders-2', 'other']
  expect(topics.map((topic) => matches(pattern, topic))).toEqual([true, true, false])
})

// Red when the flag y stays: the pattern would match only at the beginning of a name.
test('a pattern keeps its flags, except those with which it has a place', () => {
  expect(matches(/^ORDERS/gi, 'orders')).toBe(true)
  expect(matches(/ders/y, 'orders')).toBe(true)
  const pattern = /^orders/gy
  pattern.lastIndex = 3
  expect([matches(pattern, 'orders'), pattern.lastIndex]).toEqual([true, 3])
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
