import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  type Delivery,
  FatalError,
  type GuardEvent,
  type OutcomeRecord,
  position,
  RetryableError,
} from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { until } from '@onceward/testing'
import { skipped } from '@onceward/testing/servers'
import { describe, expect, test } from 'vitest'
import { billing, range, useKafka } from './fixtures/use-kafka.ts'
import { consumeKafka, kafkaMessage } from './index.ts'

describe.skipIf(skipped('kafka'))('consumeKafka on a real Kafka', () => {
  const kit = useKafka()

  test('processes each message once, copies included, and empties the queue', async () => {
    const { topics } = kit
    const topic = await topics.create(4)
    const keys = range(300)
    await topics.send(topic, [...keys, ...keys.slice(0, 30)])
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key))
    await using consumption = await consumeKafka(topics.client(), guard, { topics: [topic] })
    await topics.caughtUp(guard.consumer, topic)
    expect(ran.toSorted()).toEqual(keys.toSorted())
    await until(() => consumption.health().inFlight === 0)
    expect(consumption.health()).toMatchObject({ state: 'running', settleFailures: 0 })
  })

  // Red before: the first answer 503 of the registry dead-lettered each record.
  test('records that are read while a registry is down run once it is up again', async () => {
    const { topics } = kit
    const topic = await topics.create(2)
    let asked = 0
    let status = 503
    const registry = createServer((_, response) => {
      asked += 1
      response.statusCode = status
      response.end('{}')
    })
    await once(registry.listen(0, 'localhost'), 'listening')
    const { port } = registry.address() as AddressInfo
    const decode = async (body: Uint8Array): Promise<unknown> => {
      const answer = await fetch(`http://localhost:${port}/schemas/ids/1`)
      if (!answer.ok) throw new Error(`the registry answered ${answer.status}`)
      return JSON.parse(Buffer.from(body).toString())
    }
    const keys = range(5)
    await topics.send(topic, keys)
    const ran: string[] = []
    const inbox = memoryInbox()
    const retry = { attempts: 20, baseMs: 100, maxMs: 500 }
    const guard = billing(({ payload }) => void ran.push(payload.key), { decode, inbox, retry })
    {
      await using _ = await consumeKafka(topics.client(), guard, { topics: [topic] })
      await until(() => asked >= 3 * keys.length)
      expect([ran, inbox.deadLetters()]).toEqual([[], []])
      status = 200
      await topics.caughtUp(guard.consumer, topic)
    }
    registry.close()
    expect([ran.toSorted(), inbox.deadLetters()]).toEqual([keys, []])
  })

  test('a batch guard processes each message once and empties the queue', async () => {
    const { topics } = kit
    const topic = await topics.create(2)
    const keys = range(200)
    await topics.send(topic, keys)
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key), { transaction: 'batch' })
    await using _ = await consumeKafka(topics.client(), guard, {
      topics: [topic],
      batch: { size: 50 },
    })
    await topics.caughtUp(guard.consumer, topic)
    expect(ran.toSorted()).toEqual(keys.toSorted())
  })

  // Red when records of one key run at the same time, or the next record overtakes a failed one.
  test('the order of a key is kept with sixteen handlers and failing events', async () => {
    const { topics } = kit
    const topic = await topics.create(2)
    const keys = Array.from({ length: 120 }, (_, index) => `k${index % 6}:${index}`)
    await topics.send(topic, keys, (key) => ({ key: key.split(':')[0] ?? null }))
    const ran: string[] = []
    const failed = new Set<string>()
    const guard = billing(
      async ({ payload: { key } }) => {
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 4))
        if (Math.random() < 0.2 && !failed.has(key)) {
          failed.add(key)
          throw new Error('not now')
        }
        ran.push(key)
      },
      { concurrency: 16, retry: { baseMs: 20 } },
    )
    await using _ = await consumeKafka(topics.client(), guard, { topics: [topic] })
    await topics.caughtUp(guard.consumer, topic)
    for (const lane of range(6, 'k').map((name) => name.replace('-', ''))) {
      const of = (all: readonly string[]) => all.filter((key) => key.startsWith(`${lane}:`))
      expect(of(ran)).toEqual(of(keys))
    }
    expect(failed.size).toBeGreaterThan(0)
  })

  test('a dead letter has key, value and headers of its record, and the record is passed', async () => {
    const { topics } = kit
    const topic = await topics.create()
    const dead = await topics.create(1, {}, topics.name('dead'))
    await topics.send(topic, ['poison', 'fine'])
    const ran: string[] = []
    const guard = billing(({ payload: { key } }) => {
      if (key === 'poison') throw new FatalError('no such order')
      ran.push(key)
    })
    await using _ = await consumeKafka(topics.client(), guard, {
      topics: [topic],
      deadLetter: { producer: topics.producer, topic: dead },
    })
    await topics.caughtUp(guard.consumer, topic)
    expect(ran).toEqual(['fine'])
    const [record] = await topics.read(dead, 1)
    const headers = Object.entries(record?.headers ?? {}).map(([name, value]) => [
      name,
      String(value),
    ])
    expect([String(record?.key), String(record?.value)]).toEqual(['poison', '{"key":"poison"}'])
    expect(Object.fromEntries(headers)).toMatchObject({
      'Idempotency-Key': 'poison',
      'x-onceward-reason': 'fatal',
      'x-onceward-error': 'FatalError: no such order',
      'x-onceward-attempts': '1',
      'x-onceward-origin': `${topic}/0/0`,
      'x-onceward-consumer': guard.consumer,
    })
  })

  // Red when the event is not held in hand, where every return of the callback fetches it again, and when the offset
  // passes it meanwhile, as a pause with a return (K1) or a seek (K10) does: a crash then loses it.
  test('K1, K10: a failed event runs again when it is due and not before, and other events of its partition run', async () => {
    const { topics } = kit
    const topic = await topics.create()
    await topics.send(topic, ['late', 'other'])
    const outcomes: OutcomeRecord[] = []
    let ranAgainAt = 0
    let attempts = 0
    const guard = billing(
      ({ payload: { key } }) => {
        if (key !== 'late') return
        attempts += 1
        if (attempts === 1) throw new RetryableError('not now', { afterMs: 3_000 })
        ranAgainAt = Date.now()
      },
      { observe: (record) => void outcomes.push(record) },
    )
    await using _ = await consumeKafka(topics.client(), guard, { topics: [topic] })
    await until(() => outcomes.length >= 2)
    const committed = new Set<number>()
    while (attempts === 1) {
      const [offset = Number.NaN] = await topics.committed(guard.consumer, topic)
      if (attempts === 1) committed.add(offset)
    }
    await topics.caughtUp(guard.consumer, topic)
    const deferred = outcomes.find(({ settlement }) => settlement.kind === 'defer')?.settlement
    expect(deferred).toMatchObject({ reason: 'failed' })
    expect(ranAgainAt).toBeGreaterThanOrEqual(Reflect.get(deferred ?? {}, 'until'))
    expect(Math.max(...committed)).toBeLessThanOrEqual(0)
    // A claim that comes a moment too early, or waits for a lock on a busy machine, is deferred, which is not a run.
    const ended = outcomes.filter(
      ({ settlement }) => settlement.kind !== 'defer' || settlement.reason === 'failed',
    )
    expect([attempts, ended.length]).toEqual([2, 3])
  })

  test('patterns, headers of any kind, tombstones and records without a key are consumed', async () => {
    const { topics } = kit
    const prefix = topics.name('pattern')
    const [one, two] = [`${prefix}-one`, `${prefix}-two`]
    await topics.create(1, {}, one)
    await topics.create(1, {}, two)
    const headers = { CE_ID: ['1', '2'], ce_source: 'shop', blob: Buffer.from([0xff]) }
    await topics.producer.send({ topic: one, messages: [{ key: 'k', value: null, headers }] })
    await topics.producer.send({ topic: two, messages: [{ value: '{"key":"x"}' }] })
    const events: GuardEvent<unknown>[] = []
    const guard = billing((event) => void events.push(event), { onMissingKey: 'position' })
    await using _ = await consumeKafka(topics.client(), guard, {
      topics: [new RegExp(`^${prefix}`)],
    })
    await until(() => events.length === 2)
    const [tombstone, plain] = events.toSorted((a, b) =>
      a.source.queue.localeCompare(b.source.queue),
    )
    expect(tombstone).toMatchObject({
      payload: null,
      key: 'cloudevent:4:shop:1:2',
      headers: { ce_id: '2', ce_source: 'shop' },
      orderingKey: 'k',
    })
    expect(plain).toMatchObject({ payload: { key: 'x' }, source: { queue: two, position: '0/0' } })
    expect(plain?.key).toContain(`:3:0/0:`)
    expect(kafkaMessage(plain as Delivery)).toMatchObject({ topic: two, partition: 0 })
  })

  // Red when kafkajs filters: it takes the aborted transactions, which Kafka lists by their ends, for sorted by their
  // beginnings, and looks for no more than one at each record.
  test('records of aborted transactions are not consumed, however the transactions overlap', async () => {
    const { topics } = kit
    const topic = await topics.create()
    await using one = await topics.transaction(topic)
    await using two = await topics.transaction(topic)
    await using three = await topics.transaction(topic)
    await one.send('aborted-0')
    await two.send('aborted-1')
    await three.send('order-0')
    await two.abort()
    await one.send('aborted-2')
    await three.send('order-1')
    await three.commit()
    await one.send('aborted-3')
    await one.abort()
    await topics.send(topic, ['order-2'])
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key))
    await using _ = await consumeKafka(topics.client(), guard, { topics: [topic] })
    // Kafka ends a transaction after it has answered, and the topic looks empty until then.
    await until(() => ran.includes('order-2'))
    await topics.caughtUp(guard.consumer, topic)
    expect(ran).toEqual(range(3))
  })

  // Red when the identity is topic, partition and offset alone: the new records would be duplicates of the old.
  test('the records of a topic that was deleted and created again are new events', async () => {
    const { topics } = kit
    const topic = await topics.create()
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key), { eventKey: position() })
    await topics.send(topic, ['old-0', 'old-1'])
    {
      await using _ = await consumeKafka(topics.client(), guard, { topics: [topic] })
      await topics.caughtUp(guard.consumer, topic)
    }
    await topics.recreate(topic)
    await topics.send(topic, ['new-0', 'new-1'])
    await using _ = await consumeKafka(topics.client(), guard, { topics: [topic] })
    await topics.caughtUp(guard.consumer, topic)
    expect(ran).toEqual(['old-0', 'old-1', 'new-0', 'new-1'])
  })
})
