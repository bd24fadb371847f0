import { FatalError, header, idempotencyKeyHeader } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { turnOf, until } from '@onceward/testing'
import { skipped } from '@onceward/testing/servers'
import { Producer } from '@platformatic/kafka'
import { describe, expect, test } from 'vitest'
import { CLIENTS, DIFFERS, isMissing } from '../fixtures/clients.ts'
import { billing, range, useKafka } from '../fixtures/use-kafka.ts'
import { consumeKafka } from '../index.ts'

const NAMES = Object.keys(CLIENTS)

describe.skipIf(skipped('kafka'))('with each client', () => {
  for (const [index, name] of NAMES.entries()) {
    describe.skipIf(isMissing(name))(name, turnOf(index, { of: NAMES.length }), () => suite(name))
  }
})

function suite(name: string): void {
  const kit = useKafka()
  const client = () => CLIENTS[name]?.(kit.server.connection) as never

  test('each record is processed once, copies included, and the group passes all of them', async () => {
    const { topics } = kit
    const topic = await topics.create(4)
    const keys = range(300)
    await topics.send(topic, [...keys, ...keys.slice(0, 30)])
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key))
    const consumption = await consumeKafka(client(), guard, { topics: [topic] })
    await topics.caughtUp(guard.consumer, topic)
    expect(ran.toSorted()).toEqual(keys.toSorted())
    expect(consumption.health()).toMatchObject({ state: 'running', settleFailures: 0 })
    await consumption.drain()
    await consumption.stopped
  })

  // Red when a partition that comes back is read on where it was: what was fetched and not done would be lost.
  test('members come and go, and every record is processed once', async () => {
    const { topics } = kit
    const topic = await topics.create(4)
    const keys = range(1_200)
    const { guard, ran } = members(topic, 8)
    await topics.send(topic, keys)
    const start = () => consumeKafka(client(), guard(), { topics: [topic] })
    const first = await start()
    await until(() => ran.length > 100)
    const second = await start()
    await until(() => ran.length > 400)
    await first.drain()
    const third = await start()
    await topics.caughtUp(topic, topic)
    expect(ran.toSorted()).toEqual(keys.toSorted())
    await Promise.all([second.drain(), third.drain()])
  })

  // Red when the first partition tells of the join: the start of a member without one would not end.
  test('a member without a partition has started, and reads when another one leaves', async () => {
    const { topics } = kit
    const topic = await topics.create(1)
    const { guard, ran } = members(topic, 8)
    const start = () => consumeKafka(client(), guard(), { topics: [topic] })
    const first = await start()
    const second = await start()
    expect(second.health()).toMatchObject({ state: 'running' })
    await first.drain()
    await topics.send(topic, ['one'])
    await topics.caughtUp(topic, topic)
    expect(ran).toEqual(['one'])
    await second.drain()
  })

  test('a slow record holds back its key, and no other partition', async () => {
    const { topics } = kit
    const topic = await topics.create(3)
    const { promise, resolve } = Promise.withResolvers<void>()
    const ran: string[] = []
    const guard = billing(async ({ payload: { key } }) => {
      if (key === 'slow') await promise
      ran.push(key)
    })
    await topics.send(topic, ['slow'], () => ({ partition: 0 }))
    const consumption = await consumeKafka(client(), guard, { topics: [topic] })
    await until(() => consumption.health().inFlight === 1)
    const others = range(2_500)
    await topics.send(topic, others, () => ({ partition: 1 }))
    await until(async () => (await topics.committed(guard.consumer, topic))[1] === others.length)
    expect(ran).toHaveLength(others.length)
    resolve()
    await topics.caughtUp(guard.consumer, topic)
    await consumption.drain()
  })

  test('a dead letter has the key, the value and the headers of its record', async () => {
    const { topics } = kit
    const topic = await topics.create()
    const dead = await topics.create(1, {}, topics.name('dead'))
    await topics.send(topic, ['poison'], () => ({ key: Buffer.from([0xff, 0]) }))
    const guard = billing(() => {
      throw new FatalError('not payable')
    })
    const consumption = await consumeKafka(client(), guard, {
      topics: [topic],
      // Every other client sends with a producer of its own.
      deadLetter: { topic: dead, ...(name === 'kafkajs' ? { producer: topics.producer } : {}) },
    })
    const [letter] = await topics.read(dead, 1)
    expect(letter?.key).toEqual(Buffer.from([0xff, 0]))
    expect(String(letter?.value)).toBe('{"key":"poison"}')
    expect(String(letter?.headers?.['Idempotency-Key'])).toBe('poison')
    await topics.caughtUp(guard.consumer, topic)
    await consumption.drain()
  })

  // Red when a client gives null as no bytes: the key is empty, and the record dead.
  test('a header of null finds no key, and the next resolver is asked', async () => {
    const { topics } = kit
    const topic = await topics.create()
    const headers = { 'idempotency-key': null, order: Buffer.from('o-1') }
    await sendRaw(kit.server.connection.brokers, topic, headers)
    const keys: string[] = []
    const eventKey = [idempotencyKeyHeader(), header('order')]
    const guard = billing(({ key }) => void keys.push(key), { eventKey })
    const consumption = await consumeKafka(client(), guard, { topics: [topic] })
    await topics.caughtUp(guard.consumer, topic)
    expect(keys).toEqual(['o-1'])
    await consumption.drain()
  })

  test('a dead letter tells a header of null from an empty one', async ({ skip, task }) => {
    skip(DIFFERS[task.name]?.[name] !== undefined)
    const { topics } = kit
    const topic = await topics.create()
    const dead = await topics.create(1, {}, topics.name('dead'))
    const headers = { 'idempotency-key': Buffer.from('k'), none: null, empty: Buffer.alloc(0) }
    await sendRaw(kit.server.connection.brokers, topic, headers)
    const guard = billing(() => {
      throw new FatalError('not payable')
    })
    const consumption = await consumeKafka(client(), guard, {
      topics: [topic],
      deadLetter: { topic: dead, ...(name === 'kafkajs' ? { producer: topics.producer } : {}) },
    })
    const [letter] = await topics.read(dead, 1)
    expect(String(letter?.headers?.['x-onceward-null-headers'])).toBe('["none"]')
    expect(letter?.headers?.['empty']).toEqual(Buffer.alloc(0))
    await consumption.drain()
  })

  test('a dead-letter topic that hangs from the start holds back no record but the dead ones', async () => {
    const { topics } = kit
    const topic = await topics.create(4)
    const dead = await topics.create()
    const healthy = range(600)
    await topics.send(topic, range(30, 'dead'), () => ({ partition: 0 }))
    await topics.send(topic, healthy, (key) => ({ partition: 1 + (Number(key.slice(6)) % 3) }))
    const ran: string[] = []
    const guard = billing(({ payload: { key } }) => {
      if (key.startsWith('dead')) throw new FatalError('not payable')
      ran.push(key)
    })
    const { promise, resolve } = Promise.withResolvers<never[]>()
    let waiting = 0
    const send = async (): Promise<never[]> => {
      waiting += 1
      const answer = await promise
      waiting -= 1
      return answer
    }
    const consumption = await consumeKafka(client(), guard, {
      topics: [topic],
      deadLetter: { topic: dead, producer: { send } },
    })
    await topics.passed(guard.consumer, topic, [1, 2, 3])
    // Not one call has ended: each is given up after 10 s.
    expect([waiting, ran.toSorted()]).toEqual([8, healthy.toSorted()])
    resolve([{} as never])
    await topics.caughtUp(guard.consumer, topic)
    await consumption.drain()
  })

  // Red when the consumer that ends does not leave its group: the next one waits until its session is over.
  test('a topic that is deleted under the consumer holds back no record of another one', async () => {
    const { topics } = kit
    const [kept, gone] = [await topics.create(2), await topics.create(2)]
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key))
    const consumption = await consumeKafka(client(), guard, {
      topics: [kept, gone],
      consumer: { sessionTimeout: 60_000 },
    })
    await topics.send(kept, ['first'])
    await topics.sendAfresh(gone, ['second'])
    await until(() => ran.length === 2)
    await topics.admin.deleteTopics({ topics: [gone] })
    await until(() => consumption.health().reason?.includes(gone) === true)
    await topics.send(kept, ['third'])
    await until(() => ran.includes('third'), { deadlineMs: 30_000 })
    await consumption.drain()
  })

  // Red when the client is trusted to hide them: each of them leaves some in (K and P in brokers.md).
  test('records of aborted transactions are not processed, also where transactions overlap', async () => {
    const { topics } = kit
    const topic = await topics.create()
    const [one, two] = [await topics.transaction(topic), await topics.transaction(topic)]
    await one.send('aborted-1')
    await two.send('kept-1')
    await one.send('aborted-2')
    await one.abort()
    await two.commit()
    await topics.send(topic, ['kept-2'])
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key))
    const consumption = await consumeKafka(client(), guard, { topics: [topic] })
    await until(() => ran.includes('kept-2'))
    expect(ran.toSorted()).toEqual(['kept-1', 'kept-2'])
    await Promise.all([one, two].map((each) => each[Symbol.asyncDispose]()))
    await consumption.drain()
  })

  test('a group goes on where kafkajs left it', async () => {
    const { topics } = kit
    const topic = await topics.create(2)
    await topics.send(topic, range(50, 'old'))
    const ran: string[] = []
    const guard = () => billing(({ payload }) => void ran.push(payload.key), { consumer: topic })
    const before = await consumeKafka(topics.client(), guard(), { topics: [topic] })
    await topics.caughtUp(topic, topic)
    await before.drain()
    await before.stopped
    await until(async () => (await topics.members(topic)) === 0)
    ran.length = 0
    await topics.send(topic, range(50, 'new'))
    const after = await consumeKafka(client(), guard(), { topics: [topic] })
    await topics.caughtUp(topic, topic)
    expect(ran.toSorted()).toEqual(range(50, 'new').toSorted())
    await after.drain()
  })

  test('a group that starts at the end skips what was there, and nothing that comes later', async () => {
    const { topics } = kit
    const topic = await topics.create()
    await topics.send(topic, range(5, 'old'))
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key))
    const options = { topics: [topic], fromBeginning: false }
    const consumption = await consumeKafka(client(), guard, options)
    await topics.send(topic, range(5, 'new'))
    await until(() => ran.length >= 5)
    expect(ran.toSorted()).toEqual(range(5, 'new').toSorted())
    await consumption.drain()
  })

  test('a topic that is created again is read from its beginning', async () => {
    const { topics } = kit
    const topic = await topics.create()
    await topics.send(topic, range(8, 'old'))
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key))
    const consumption = await consumeKafka(client(), guard, { topics: [topic] })
    await until(() => ran.length === 8)
    await topics.recreate(topic)
    await topics.sendAfresh(topic, range(12, 'new'))
    await until(() => ran.length === 20, { deadlineMs: 60_000 })
    expect(ran.slice(8).toSorted()).toEqual(range(12, 'new').toSorted())
    await consumption.drain()
  })

  // After an election of a leader that lacked records, or after a restore of the cluster.
  test('a log that is shorter than the offset of its group is read from its beginning', async () => {
    const { topics } = kit
    const topic = await topics.create()
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key))
    await topics.send(topic, range(8, 'there'))
    const groupId = guard.consumer
    await topics.admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: '50' }] })
    const consumption = await consumeKafka(client(), guard, { topics: [topic] })
    await until(() => ran.length === 8)
    await topics.send(topic, range(4, 'later'))
    await topics.caughtUp(groupId, topic)
    expect(ran).toEqual([...range(8, 'there'), ...range(4, 'later')])
    await consumption.drain()
  })

  // Red when the client names another assigner than kafkajs: the broker refuses members that share none.
  test('members of kafkajs can be in the group meanwhile', async ({ skip, task }) => {
    skip(DIFFERS[task.name]?.[name] !== undefined)
    const { topics } = kit
    const topic = await topics.create(4)
    const keys = range(600)
    const { guard, ran } = members(topic, 4)
    await topics.send(topic, keys)
    const before = await consumeKafka(topics.client(), guard(), { topics: [topic] })
    await until(() => ran.length > 50)
    const after = await consumeKafka(client(), guard(), { topics: [topic] })
    await until(async () => (await topics.members(topic)) === 2)
    await until(() => ran.length > 300)
    await before.drain()
    await topics.caughtUp(topic, topic)
    expect(ran.toSorted()).toEqual(keys.toSorted())
    await after.drain()
  })
}

/** kafkajs and Confluent's client send no header of null. */
async function sendRaw(
  brokers: readonly string[],
  topic: string,
  headers: Readonly<Record<string, Buffer | null>>,
): Promise<void> {
  const producer = new Producer({ clientId: 'raw', bootstrapBrokers: [...brokers] })
  const entries = Object.entries(headers).map(
    ([name, value]) => [Buffer.from(name), value as Buffer] as const,
  )
  const value = Buffer.from('{"key":"o-1"}')
  await producer.send({ messages: [{ topic, value, headers: new Map(entries) }] })
  await producer.close()
}

/** Guards of several members, which share an inbox, and the keys that their handlers have run. */
function members(consumer: string, concurrency: number) {
  const ran: string[] = []
  const inbox = memoryInbox()
  const guard = () =>
    billing(
      async ({ payload }) => {
        await new Promise((resolve) => setTimeout(resolve, 5))
        ran.push(payload.key)
      },
      { consumer, inbox, concurrency },
    )
  return { guard, ran }
}
