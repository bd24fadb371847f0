import { handMadeGuard } from '@onceward/testing/adapter'
import type { Cluster } from 'kafkajs'
import { expect, test } from 'vitest'
import { protocolError } from '../fixtures/fetch.ts'
import { resolveConsumerSettings } from '../options.ts'
import { Unreadable } from './unreadable.ts'

const notImplemented = Object.assign(new Error('LZ4 compression not implemented'), {
  name: 'KafkaJSNotImplemented',
})

/** A cluster that answers each fetch of a partition as the test says; the group has committed offset 7. */
function checking() {
  const { port, clock, logged } = handMadeGuard()
  const told: string[] = []
  const fetched: string[] = []
  const errors = new Map<number, Error>()
  const tell = (verb: string) => (partitions: readonly { partitions?: number[] }[]) =>
    void told.push(`${verb} ${partitions[0]?.partitions}`)
  const consumer = { pause: tell('pause'), resume: tell('resume') }
  const cluster: object = {
    findGroupCoordinator: async () => ({
      offsetFetch: async () => ({ responses: [{ partitions: [{ offset: '7' }] }] }),
    }),
    findLeaderForPartitions: (_topic: string, partitions: number[]) => ({ 1: partitions }),
    findBroker: async () => ({
      fetch: async ({ topics: [{ partitions }] }: { topics: [{ partitions: [Fetched] }] }) => {
        const [{ partition, fetchOffset }] = partitions
        fetched.push(`${partition}@${fetchOffset}`)
        const error = errors.get(partition)
        if (error !== undefined) throw error
      },
    }),
  }
  const settings = resolveConsumerSettings({ topics: ['orders'] }, port.settings)
  const unreadable = new Unreadable({ port, settings, fields: { group: 'billing' } })
  const join = (...partitions: readonly number[]): void =>
    unreadable.joined(consumer, cluster as Cluster, { orders: partitions })
  return { clock, logged, told, fetched, errors, unreadable, join }
}

interface Fetched {
  readonly partition: number
  readonly fetchOffset: string
}

test('nothing is checked as long as no consumer ended for want of a codec', async () => {
  const kit = checking()
  kit.unreadable.ended(new Error('Connection closed'), [])
  kit.join(0, 1)
  await kit.clock.advance(10_000)
  expect([kit.told, kit.fetched]).toEqual([[], []])
})

test('partitions are resumed when they can be read, and the others are named and tried again', async () => {
  const kit = checking()
  kit.errors.set(0, notImplemented)
  kit.errors.set(1, new Error('connect ECONNREFUSED'))
  kit.errors.set(2, Object.assign(new Error('gone'), { name: 'KafkaJSOffsetOutOfRange' }))
  kit.unreadable.ended(new Error('crash', { cause: notImplemented }), [])
  kit.join(0, 1, 2, 3)
  expect(kit.told).toEqual(['pause 0', 'pause 1', 'pause 2', 'pause 3'])
  await kit.clock.advance(0)
  expect(kit.told.slice(4)).toEqual(['resume 2', 'resume 3'])
  expect(kit.unreadable.notice).toMatch(
    /^Topic 'orders', partition 0, waits at offset 7: .*kafkajs-lz4/,
  )
  kit.errors.delete(1)
  await kit.clock.advance(6_000)
  expect(kit.told.slice(6)).toEqual(['resume 1'])
  kit.errors.delete(0)
  await kit.clock.advance(3_000)
  expect([kit.told.slice(7), kit.unreadable.notice, kit.clock.timers]).toEqual([
    ['resume 0'],
    undefined,
    0,
  ])
  expect(kit.logged).toMatchObject([{ level: 'error' }, { level: 'info' }])
  // The next consumer is trusted again.
  kit.join(0, 1)
  expect(kit.told.slice(8)).toEqual([])
})

// Red when the error ends the consumer again and again: no topic is consumed, and nothing names the one that is denied.
test('a topic that this client may not read waits and is named once, and the others are resumed', async () => {
  const kit = checking()
  const denied = protocolError('TOPIC_AUTHORIZATION_FAILED')
  for (const partition of [0, 1]) kit.errors.set(partition, denied)
  kit.unreadable.ended(new Error('crash', { cause: denied }), [])
  kit.join(0, 1, 2)
  await kit.clock.advance(0)
  expect(kit.told.slice(3)).toEqual(['resume 2'])
  const notice = "Topic 'orders' waits: this client may not read it. Allow Read on the topic."
  expect(kit.unreadable.notice).toBe(notice)
  expect(kit.logged.map(({ level, text }) => [level, text])).toEqual([
    ['error', 'a topic waits, because this client may not read it'],
  ])
  kit.errors.clear()
  await kit.clock.advance(3_000)
  expect([kit.told.slice(4), kit.unreadable.notice]).toEqual([['resume 0', 'resume 1'], undefined])
})

test('a join checks the partitions it brings, and an end checks nothing more', async () => {
  const kit = checking()
  for (const partition of [0, 1]) kit.errors.set(partition, notImplemented)
  kit.unreadable.ended(notImplemented, [])
  kit.join(0)
  await kit.clock.advance(0)
  kit.join(1)
  await kit.clock.advance(0)
  expect(kit.unreadable.notice).toContain('partition 1')
  expect(kit.unreadable.notice).not.toContain('partition 0')
  expect(kit.clock.timers).toBe(1)
  kit.unreadable.end()
  const before = kit.fetched.length
  await kit.clock.advance(10_000)
  expect([kit.fetched.length, kit.clock.timers]).toEqual([before, 0])
})
