import { type HandMadeGuard, handMadeGuard } from '@onceward/testing/adapter'
import type { ConsumerRunConfig } from 'kafkajs'
import { expect, test } from 'vitest'
import { clusterOf } from './fixtures/cluster.ts'
import { type Fetch, fetchOf } from './fixtures/fetch.ts'
import { ack, records } from './fixtures/member.ts'
import { type ConsumeKafkaOptions, consumeKafka } from './index.ts'

const EVENTS = ['CRASH', 'FETCH', 'GROUP_JOIN', 'HEARTBEAT', 'REBALANCING']
const deadLetter = { producer: { send: async () => [] }, topic: 'dead' }

interface Life extends HandMadeGuard {
  readonly consumption: Awaited<ReturnType<typeof consumeKafka>>
  /** Calls to kafkajs, in order. */
  readonly calls: readonly string[]
  /** As kafkajs tells its listeners. */
  emit(name: string, payload?: object): void
  /** As kafkajs calls back with what it fetched. */
  call(fetch: Fetch): Promise<void> | undefined
}

/** A consumer that has joined its group, for which the test plays kafkajs. */
async function life(options: Partial<ConsumeKafkaOptions> = {}): Promise<Life> {
  const made = handMadeGuard({ concurrency: 1 })
  const calls: string[] = []
  const listeners = new Map<string, (event: object) => void>()
  let run: ConsumerRunConfig = {}
  const consumer: object = {
    events: Object.fromEntries(EVENTS.map((name) => [name, name])),
    on: (name: string, listener: (event: object) => void) => listeners.set(name, listener),
    connect: async () => undefined,
    subscribe: async () => undefined,
    run: async (config: ConsumerRunConfig) => {
      calls.push('run')
      run = config
    },
    disconnect: async () => void calls.push('disconnect'),
    pause: () => undefined,
    resume: () => undefined,
  }
  const { kafka } = clusterOf({ orders: {}, refunds: {}, dead: {} })
  const client = { admin: kafka.admin, consumer: () => consumer as never }
  const starting = consumeKafka(client, made.guard, { topics: ['orders'], ...options })
  const emit = (name: string, payload: object = {}): void => listeners.get(name)?.({ payload })
  await made.clock.advance(0)
  emit('GROUP_JOIN', { memberId: 'm-1', memberAssignment: { orders: [0] } })
  const consumption = await starting
  await made.clock.advance(1_001)
  return { ...made, consumption, calls, emit, call: ({ payload }) => run.eachBatch?.(payload) }
}

test('records are handed to the guard as slots get free, and their offset is committed', async () => {
  const kit = await life()
  expect(kit.consumption.health()).toMatchObject({ state: 'running', inFlight: 0 })
  const fetch = fetchOf(records('a', 'b'))
  void kit.call(fetch)
  await kit.clock.advance(0)
  expect([kit.handed.length, kit.consumption.health().inFlight]).toEqual([1, 2])
  kit.handed[0]?.settle(ack)
  await kit.clock.advance(0)
  expect(kit.handed).toHaveLength(2)
  const { lastProgressAt } = kit.consumption.health()
  expect(lastProgressAt?.getTime()).toBe(kit.clock.nowMs)
  kit.handed[1]?.settle(ack)
  await kit.clock.advance(1_000)
  expect(fetch.calls.at(-1)).toBe('commit 42')
})

// Red when the hold of a rebalance ends unseen: nothing of the partitions is read until something else happens.
test('records that a rebalance held back run when the consumer has joined again', async () => {
  const kit = await life()
  void kit.call(fetchOf(records('a')))
  kit.emit('REBALANCING')
  await kit.clock.advance(1)
  expect(kit.handed).toEqual([])
  kit.emit('GROUP_JOIN', { memberId: 'm-1', memberAssignment: { orders: [0] } })
  await kit.clock.advance(0)
  expect(kit.handed).toHaveLength(1)
})

test('a topic that does not exist fails the start, and leaves nothing behind', async () => {
  const { clock, guard, publishers } = handMadeGuard()
  const { asked, kafka } = clusterOf({ dead: {} })
  const starting = consumeKafka(kafka, guard, { topics: ['orders'], deadLetter })
  await expect(starting).rejects.toMatchObject({
    code: 'ONCEWARD_CONFIGURATION',
    message: expect.stringContaining("'orders', does not exist"),
  })
  expect([asked.at(-1), publishers.size, clock.timers]).toEqual([['disconnect'], 0, 0])
})

test('dead letters of a topic are published once its name is known, and not after a drain', async () => {
  const kit = await life({ topics: ['refunds', /^or/], deadLetter })
  expect([...kit.publishers.keys()]).toEqual(['refunds', 'orders'])
  await kit.consumption.drain()
  expect(kit.publishers.size).toBe(0)
})

test('a closed guard ends the consumer, with the names of its topics in the log', async () => {
  const kit = await life({ topics: ['orders', /^x/] })
  void kit.call(fetchOf(records('a')))
  await kit.clock.advance(0)
  kit.handed[0]?.settle({ kind: 'abandon', reason: 'closing' })
  await kit.clock.advance(1_000)
  await kit.consumption.stopped
  expect(kit.logged).toMatchObject([{ level: 'warn', fields: { queue: 'orders, /^x/' } }])
  expect(kit.calls.slice(-2)).toEqual(['run', 'disconnect'])
})

// Red when the timer for the record stays: it keeps what it would start in memory.
test('a drain does not wait for a record that is due later', async () => {
  const kit = await life()
  const fetch = fetchOf(records('a'))
  void kit.call(fetch)
  await kit.clock.advance(0)
  const until = (kit.clock.nowMs + 60_000) as never
  kit.handed[0]?.settle({ kind: 'defer', reason: 'failed', until })
  await kit.clock.advance(1_000)
  await kit.consumption.drain()
  await kit.clock.advance(300)
  expect([fetch.calls, kit.clock.timers]).toEqual([['resolve 40'], 0])
})

// Red when the handler is not aborted: the drain ends, and it runs on.
test('a drain aborts what runs too long, leaves the group, and leaves no timer', async () => {
  const kit = await life({ drainMs: 5_000 })
  void kit.call(fetchOf(records('a', 'b')))
  await kit.clock.advance(0)
  const drained = kit.consumption.drain()
  await kit.clock.advance(4_999)
  expect([kit.hooks[0]?.stop?.aborted, kit.hooks[0]?.abort?.aborted]).toEqual([true, false])
  await kit.clock.advance(1)
  expect(kit.hooks[0]?.abort?.aborted).toBe(true)
  expect(kit.calls).toEqual(['run'])
  await kit.clock.advance(5_000)
  await drained
  expect(kit.calls).toEqual(['run', 'disconnect'])
  expect(kit.consumption.health().state).toBe('stopped')
})
