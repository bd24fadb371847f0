// @module-tag nightly

import { type Consumption, FatalError, type Handler, type Inbox } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { until } from '@onceward/testing'
import { guardOf, type Order } from '@onceward/testing/adapter'
import { skipped } from '@onceward/testing/servers'
import { describe, expect, test } from 'vitest'
import { confluent } from './clients/confluent/index.ts'
import { CLIENTS, isMissing } from './fixtures/clients.ts'
import { range, useKafka } from './fixtures/use-kafka.ts'
import { type ConsumeKafkaOptions, consumeKafka } from './index.ts'

/** Each client in turn: what one has stored, all go on from. */
describe.skipIf(skipped('kafka'))('offsets as identity', () => {
  for (const name of Object.keys(CLIENTS)) {
    describe.skipIf(isMissing(name))(name, () => suite(name))
  }
})

function suite(name: string): void {
  const kit = useKafka()
  const client = (of = name) => CLIENTS[of]?.(kit.server.connection) as never
  const fetchingLittle = () =>
    confluent({
      'bootstrap.servers': kit.server.connection.brokers.join(),
      'group.protocol': name.endsWith('848') ? 'consumer' : 'classic',
      'max.partition.fetch.bytes': 200_000,
      'queued.max.messages.kbytes': 400,
    }) as never
  let consumers = 0

  const refused = (consumption: Consumption): Promise<true> =>
    until(() => consumption.health().reason?.includes('offsets reset') === true)

  /** Deletes all records but the last ones of each partition. Answers the oldest offset of the first. */
  async function keep(topic: string, last: number): Promise<number> {
    const ends = await kit.topics.admin.fetchTopicOffsets(topic)
    const partitions = ends.map(({ high, partition }) => ({
      ...{ partition, offset: String(Number(high) - last) },
    }))
    await kit.topics.admin.deleteTopicRecords({ topic, partitions })
    return Number(partitions.find(({ partition }) => partition === 0)?.offset)
  }

  /** Workers of one consumer, that share its inbox. */
  function setUp(handler: Handler<Order> = () => undefined) {
    consumers += 1
    const consumer = `fenced-${process.pid}-${Date.now()}-${consumers}`
    const inbox: Inbox<undefined> = memoryInbox()
    /** Places of the records whose effects were committed. */
    const processed: string[] = []
    const ran: string[] = []
    const counted: Handler<Order> = async (event, context) => {
      await handler(event, context)
      ran.push(event.payload.key)
    }
    const worker = () =>
      guardOf(counted, {
        ...{ consumer, inbox, transaction: 'batch', retry: { baseMs: 100, attempts: 20 } },
        observe: ({ settlement, source }) => {
          if (settlement.kind === 'ack' && settlement.by === 'processed')
            processed.push(source.position ?? '')
        },
      })
    const start = (topic: string, options: Partial<ConsumeKafkaOptions> = {}, by = client()) =>
      consumeKafka(by, worker(), {
        ...{ topics: [topic], identity: 'offsets', ...options },
      })
    /** Why partitions of the topic are not read, although the consumption goes on. */
    const refusal = async (topic: string): Promise<string> => {
      await using consumption = await start(topic)
      await refused(consumption)
      return consumption.health().reason ?? ''
    }
    const command = (topic: string, to: number): string =>
      `npx onceward offsets reset --consumer ${consumer} --topic ${topic} --partition 0 --to ${to}`
    /** The producer of kafkajs may send records twice, and each of them runs then. */
    const done = (keys: number) => until(() => new Set(ran).size === keys)
    const once = (): void => expect(new Set(processed).size).toBe(processed.length)
    return { command, consumer, done, once, ran, refusal, start }
  }

  test('each record runs once, wherever the group says that it is', async () => {
    const topic = await kit.topics.create(2)
    const { consumer, done, once, start } = setUp()
    await kit.topics.send(topic, range(40))
    await using first = await start(topic)
    await done(40)
    await kit.topics.caughtUp(consumer, topic)
    await first.drain()
    await kit.topics.move(consumer, topic, 'start')
    await kit.topics.send(topic, ['late'])
    await using second = await start(topic)
    await done(41)
    await second.drain()
    // Ahead of what was processed.
    await kit.topics.send(topic, ['skipped-1', 'skipped-2', 'skipped-3', 'skipped-4'])
    await kit.topics.move(consumer, topic, 'end')
    await using _ = await start(topic)
    await kit.topics.send(topic, ['last-1', 'last-2', 'last-3', 'last-4'])
    await done(49)
    once()
  })

  test('records that fail wait, die and are passed, and a rebalance changes nothing of it', async () => {
    const topic = await kit.topics.create(3)
    let isSound = false
    const { consumer, once, ran, start } = setUp(({ payload: { key } }) => {
      if (key === 'k-7') throw new FatalError('never')
      if (!isSound && key === 'k-9') throw new Error('not yet')
    })
    const keys = range(60).map((_, n) => `k-${n}`)
    await kit.topics.send(topic, keys)
    await using one = await start(topic)
    await until(() => ran.length >= 20)
    await using _ = await start(topic)
    isSound = true
    await kit.topics.caughtUp(consumer, topic)
    expect(new Set(ran).size).toBe(59)
    once()
    expect(one.health().state).not.toBe('stopped')
  })

  test('a topic that was created again is refused', async () => {
    const topic = await kit.topics.create(1)
    const { command, done, ran, refusal, start } = setUp()
    await kit.topics.send(topic, range(3))
    await using first = await start(topic)
    await done(3)
    await first.drain()
    await kit.topics.recreate(topic)
    await kit.topics.sendAfresh(topic, range(3))
    const why = await refusal(topic)
    expect(why).toContain('deleted and created again')
    expect(why).toContain(command(topic, 0))
    expect(new Set(ran).size).toBe(3)
  })

  // Red when its records are told from those of the old one by their offsets alone: those from the old place on run as
  // events of the old topic, and those below it are skipped.
  test('so is one that has grown past the old place before its owner looks', async () => {
    const topic = await kit.topics.create(1)
    const { command, done, ran, start } = setUp()
    await kit.topics.send(topic, range(3))
    await using consumption = await start(topic)
    await done(3)
    await kit.topics.recreate(topic)
    await kit.topics.sendAfresh(topic, range(8, 'new'))
    await refused(consumption)
    expect(consumption.health().reason).toContain(command(topic, 0))
    expect(new Set(ran)).toEqual(new Set(range(3)))
  })

  // Red when clients write the id of a topic in different ways: it is part of the identity.
  test('a partition goes on where another client left it, records that wait included', async () => {
    const topic = await kit.topics.create(2)
    let isSound = false
    const { consumer, done, once, ran, start } = setUp(({ payload: { key } }) => {
      if (!isSound && key === 'k-3') throw new Error('not yet')
    })
    await kit.topics.send(topic, range(20, 'k'))
    await using before = await start(topic, {}, client('kafkajs'))
    await done(19)
    await before.drain()
    await kit.topics.send(topic, range(20, 'later'))
    isSound = true
    await using after = await start(topic)
    await kit.topics.caughtUp(consumer, topic)
    expect(new Set(ran).size).toBe(40)
    await after.drain()
    await using again = await start(topic, {}, client('kafkajs'))
    await kit.topics.send(topic, range(4, 'last'))
    await kit.topics.caughtUp(consumer, topic)
    expect(new Set(ran).size).toBe(44)
    once()
    await again.drain()
  })

  test('from event keys to offsets, and back', async () => {
    const topic = await kit.topics.create(2)
    const { consumer, done, once, start } = setUp()
    const steps = ['key', 'offsets', 'key'] as const
    for (const [step, identity] of steps.entries()) {
      await kit.topics.send(topic, range(30, `step-${step}`))
      await using consumption = await start(topic, { identity })
      await done(30 * (step + 1))
      await kit.topics.caughtUp(consumer, topic)
      await consumption.drain()
    }
    once()
  })

  test('records that retention has deleted before they ran are not passed', async () => {
    const topic = await kit.topics.create(1)
    const { command, done, ran, refusal, start } = setUp()
    await kit.topics.send(topic, range(4))
    await using first = await start(topic)
    await done(4)
    await first.drain()
    await kit.topics.send(topic, range(4, 'unread'))
    const oldest = await keep(topic, 2)
    expect(await refusal(topic)).toContain(command(topic, oldest))
    expect(new Set(ran).size).toBe(4)
  })

  // Red when only clean records move the stored offset on: nothing was lost, and no member may read the partition.
  test('what no record is left of behind the last one is passed by the next owner', async () => {
    const topic = await kit.topics.create(2)
    let isSound = false
    const { consumer, done, once, ran, start } = setUp(({ payload: { key } }) => {
      if (!isSound && key === 'twice') throw new Error('not yet')
      if (key === 'never') throw new FatalError('never')
    })
    await kit.topics.send(topic, ['one', 'twice', 'never'])
    await using first = await start(topic)
    await done(1)
    isSound = true
    await done(2)
    await using transaction = await kit.topics.transaction(topic)
    await transaction.send('two')
    await transaction.commit()
    await done(3)
    await kit.topics.caughtUp(consumer, topic)
    await keep(topic, 0)
    await using second = await start(topic)
    await first.drain()
    await kit.topics.send(topic, ['three'])
    await done(4)
    expect(second.health().reason).toBeUndefined()
    expect([...new Set(ran)].toSorted()).toEqual(['one', 'three', 'twice', 'two'])
    once()
  })

  // Red when the refusal of one ends the consumption.
  test('a partition that is refused holds back no other', async () => {
    const topic = await kit.topics.create(2)
    const { command, done, ran, start } = setUp()
    await kit.topics.send(topic, ['there'], () => ({ partition: 0 }))
    await kit.topics.send(topic, ['here'], () => ({ partition: 1 }))
    await using first = await start(topic)
    await done(2)
    await first.drain()
    await kit.topics.send(topic, range(3, 'unread'), () => ({ partition: 0 }))
    await kit.topics.admin.deleteTopicRecords({
      topic,
      partitions: [{ partition: 0, offset: '2' }],
    })
    await using consumption = await start(topic)
    await refused(consumption)
    expect(consumption.health()).toMatchObject({
      state: 'running',
      reason: expect.stringContaining(command(topic, 2)),
    })
    await kit.topics.send(topic, ['next'], () => ({ partition: 1 }))
    await done(3)
    expect(ran.filter((key) => key.startsWith('unread'))).toEqual([])
  })

  test('nor while the consumer runs', async () => {
    const topic = await kit.topics.create(1)
    const gate = Promise.withResolvers<void>()
    const { command, ran, start } = setUp(async ({ payload: { key } }) => {
      if (key === 'slow') await gate.promise
    })
    const padding = 'x'.repeat(40_000)
    const place = (key: string) => ({ value: JSON.stringify({ key, padding }) })
    await kit.topics.send(topic, ['slow'], place)
    for (let part = 0; part < 10; part += 1)
      await kit.topics.send(topic, range(20, `${part}`), place)
    await using consumption = await (name.startsWith('confluent')
      ? start(topic, {}, fetchingLittle())
      : start(topic, { consumer: { maxBytesPerPartition: 200_000 } }))
    await until(() => consumption.health().inFlight > 0)
    await until(async () => {
      const before = consumption.health().inFlight
      await new Promise((resolve) => setTimeout(resolve, 1_000))
      return consumption.health().inFlight === before
    })
    const oldest = await keep(topic, 10)
    gate.resolve()
    await refused(consumption)
    expect(consumption.health().reason).toContain(command(topic, oldest))
    expect(ran).not.toContain('9-19')
  })

  test('a partition that is added is read from its beginning', async () => {
    const topic = await kit.topics.create(1)
    const { once, ran, start } = setUp()
    // Other clients look for them more often.
    const consumer = name === 'kafkajs' ? { metadataMaxAge: 1_000 } : {}
    const begin = () => start(topic, { fromBeginning: false, consumer })
    await using first = await begin()
    await until(async () => {
      await kit.topics.send(topic, ['any'])
      return ran.length > 0
    })
    await kit.topics.addPartitions(topic, 2)
    // This client looks for them every five minutes, and when it starts.
    if (name.startsWith('platformatic')) await first.drain()
    await using _ = await begin()
    for (const partition of [0, 1]) {
      await kit.topics.sendAfresh(topic, range(10, `new-${partition}`), () => ({ partition }))
    }
    await until(() =>
      range(20, 'x').every((_, n) => ran.includes(`new-${n < 10 ? 0 : 1}-${n % 10}`)),
    )
    once()
  })

  test('a consumer that begins at the end skips what was there, and nothing that comes later', async () => {
    const topic = await kit.topics.create(1)
    const { done, ran, start } = setUp()
    await kit.topics.send(topic, range(5, 'old'))
    await using first = await start(topic, { fromBeginning: false })
    await kit.topics.send(topic, range(5, 'new'))
    await done(5)
    await first.drain()
    await kit.topics.send(topic, range(5, 'late'))
    await using _ = await start(topic, { fromBeginning: false })
    await done(10)
    expect(ran.filter((key) => key.startsWith('old'))).toEqual([])
  })

  test('marks of transactions and aborted records are passed', async () => {
    const topic = await kit.topics.create(1)
    const { done, ran, start } = setUp()
    const [one, two] = [await kit.topics.transaction(topic), await kit.topics.transaction(topic)]
    await one.send('aborted-1')
    await two.send('kept-1')
    await one.send('aborted-2')
    await one.abort()
    await two.commit()
    await kit.topics.send(topic, ['kept-2'])
    await using first = await start(topic)
    await done(2)
    await first.drain()
    await using _ = await start(topic)
    const three = await kit.topics.transaction(topic)
    await three.send('kept-3')
    await three.commit()
    await kit.topics.send(topic, ['kept-4'])
    await done(4)
    expect(ran.every((key) => key.startsWith('kept'))).toBe(true)
    await Promise.all([one, two, three].map((each) => each[Symbol.asyncDispose]()))
  })
}
