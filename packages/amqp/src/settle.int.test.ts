import { FatalError } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import type { ConsumeMessage } from 'amqplib'
import { expect, test } from 'vitest'
import type { QueueType } from './fixtures/broker.ts'
import { downInbox } from './fixtures/down-inbox.ts'
import { useRabbitmq } from './fixtures/use-rabbitmq.ts'
import {
  amqpMessage,
  assertRetryTopology,
  type Consumption,
  consumeAmqp,
  fromAmqpMessage,
  settleAmqp,
  wrapAmqp,
} from './index.ts'

const kit = useRabbitmq()

const TYPES: readonly QueueType[] = ['classic', 'quorum']
const fatal = () => {
  throw new FatalError('no such order')
}

async function isEmpty(queue: string, consumption: Consumption): Promise<boolean> {
  return (await kit.broker.ready(queue)) === 0 && consumption.health().inFlight === 0
}

/** A logger that keeps warnings and errors. */
function recorder() {
  const said: string[] = []
  const note = (fields: object, text: string): void =>
    void said.push(`${text}: ${JSON.stringify(fields)}`)
  const silent = (): void => undefined
  return { said, logger: { debug: silent, info: silent, warn: note, error: note } }
}

// Red when a confirm counts as delivery to a queue: the message is acked and lost.
test('trap A2: a message is held if its delay queue is missing, and the log says what to do', async () => {
  const queue = await kit.broker.create()
  const { said, logger } = recorder()
  const attempts: number[] = []
  const guard = guardOf(
    ({ attempt }) => {
      attempts.push(attempt)
      if (attempt === 1) throw new Error('not yet')
    },
    { retry: { baseMs: 100, maxMs: 100 }, logger },
  )
  const options = { queue, holdMs: 0, retryLevelsMs: [200] }
  await using consumption = await consumeAmqp(kit.open, guard, options)
  await kit.broker.channel.deleteQueue(`${queue}.retry.200`)
  await kit.broker.send(queue, ['once'])
  await until(() => said.some((line) => line.includes('assertRetryTopology()')))
  expect(consumption.health()).toMatchObject({ state: 'recovering', inFlight: 1 })
  expect(consumption.health().reason).toContain('messages cannot be deferred')
  expect(said.join()).toContain('NO_ROUTE')
  await consumption.drain()
  expect(await kit.broker.ready(queue)).toBe(1)

  await using again = await consumeAmqp(kit.open, guard, options)
  await until(async () => attempts.length === 2 && isEmpty(queue, again))
})

test('trap A2: a message stays in its queue until its missing dead-letter queue exists', async () => {
  const queue = await kit.broker.create()
  const dead = await kit.broker.create()
  const { said, logger } = recorder()
  const guard = guardOf(fatal, { logger })
  await using consumption = await consumeAmqp(kit.open, guard, {
    queue,
    deadLetter: { queue: dead },
  })
  await kit.broker.channel.deleteQueue(dead)
  await kit.broker.send(queue, ['once'])
  await until(() => said.some((line) => line.includes(`declare the queue of`)))
  expect(consumption.health()).toMatchObject({ state: 'running', inFlight: 1 })
  await consumption.drain()
  expect(await kit.broker.ready(queue)).toBe(1)
  await kit.broker.channel.assertQueue(dead, { durable: true })
  await using _ = await consumeAmqp(kit.open, guard, { queue, deadLetter: { queue: dead } })
  await until(async () => (await kit.broker.ready(dead)) === 1)
})

// Red when dead letters go out on the consuming channel: the 404 closes it under all messages in hand.
test('trap A3: a missing exchange stops neither the consumer nor loses the message', async () => {
  const queue = await kit.broker.create()
  const exchange = `${queue}-dead`
  await kit.broker.channel.assertExchange(exchange, 'direct')
  const { said, logger } = recorder()
  const done: string[] = []
  const guard = guardOf(({ key }) => (key === 'fatal' ? fatal() : void done.push(key)), { logger })
  const deadLetter = { exchange, routingKey: 'orders' }
  await using consumption = await consumeAmqp(kit.open, guard, { queue, deadLetter })
  await kit.broker.channel.deleteExchange(exchange)
  await kit.broker.send(queue, ['fatal'])
  await until(() => said.some((line) => line.includes('404')))
  await kit.broker.send(queue, ['good'])
  await until(() => done.length === 1)
  expect(consumption.health()).toMatchObject({ state: 'running', inFlight: 1 })
})

test('trap A3: a missing exchange does not close a wrapped channel', async () => {
  const queue = await kit.broker.create()
  const { said, logger } = recorder()
  const done: string[] = []
  const guard = guardOf(({ key }) => (key === 'fatal' ? fatal() : void done.push(key)), { logger })
  const connection = await kit.open()
  const channel = await connection.createConfirmChannel()
  const deadLetter = { exchange: `${queue}-dead`, routingKey: 'orders' }
  await channel.consume(queue, wrapAmqp(channel, guard, { queue, deadLetter }))
  await kit.broker.send(queue, ['fatal'])
  await until(() => said.some((line) => line.includes('does not exist')))
  await kit.broker.send(queue, ['good'])
  await until(() => done.length === 1)
  await connection.close()
})

const bad: Readonly<Record<string, () => unknown>> = {
  'throws a TypeError': () => Reflect.get(undefined as never, 'x'),
  'rejects with undefined': () => Promise.reject(undefined),
  'rejects with an error that says it is not retriable': () =>
    Promise.reject(Object.assign(new Error('no'), { retriable: false })),
  'throws a string': () => {
    throw 'text'
  },
  'never settles': () => new Promise(() => undefined),
}

// Red when an error reaches the consume callback: amqplib closes the channel, or keeps the message for ever.
test.each(Object.keys(bad))(
  'trap A4: a handler that %s does not stop the consumer',
  async (name) => {
    const queue = await kit.broker.create()
    const done: string[] = []
    const guard = guardOf(
      (event) => {
        if (event.payload.key !== 'bad') done.push(event.payload.key)
        else return bad[name]?.() as never
      },
      { deadlineMs: 300, retry: { attempts: 1, baseMs: 0 }, concurrency: 2 },
    )
    await kit.broker.send(queue, ['bad'])
    await using consumption = await consumeAmqp(kit.open, guard, { queue })
    await until(() => isEmpty(queue, consumption), { deadlineMs: 15_000 })
    await kit.broker.send(queue, ['good'])
    await until(() => done.includes('good'))
    expect(consumption.health().state).toBe('running')
  },
)

// Red when the messages are requeued while the store is down: the fourth delivery drops them.
// test-e2e/behaviour/brokers/outage.test.ts tests the same with a worker and a real store.
test('trap A7: a store outage does not use up the delivery limit, so no message is dropped or dead-lettered', {
  tags: 'nightly',
}, async () => {
  const dead = await kit.broker.create()
  const queue = await kit.broker.create('quorum', {
    'x-delivery-limit': 3,
    'x-dead-letter-exchange': '',
    'x-dead-letter-routing-key': dead,
  })
  const inbox = downInbox()
  const done: string[] = []
  const guard = guardOf(({ key }) => void done.push(key), {}, inbox)
  await using consumption = await consumeAmqp(kit.open, guard, { queue, prefetch: 10 })
  inbox.isDown = true
  const keys = Array.from({ length: 30 }, (_, n) => `k-${n}`)
  await kit.broker.send(queue, keys)
  await until(() => consumption.health().state === 'paused')
  const since = performance.now()
  await until(() => performance.now() - since > 8_000, { everyMs: 100 })
  expect(consumption.health().state).toBe('paused')
  inbox.isDown = false
  await until(async () => done.length === 30 && isEmpty(queue, consumption), { deadlineMs: 40_000 })
  expect(consumption.health()).toMatchObject({ state: 'running', settleFailures: 0 })
  expect(await kit.broker.ready(dead)).toBe(0)
  expect(done.toSorted()).toEqual(keys.toSorted())
})

// Red when a copy keeps the broker's x-death: what expired in this queue once, and was sent again by an operator, would
// go round without a rejection, and the broker drops that.
test.each(TYPES)(
  'trap A10: a message returns from its delay queue as often as it is retried (%s)',
  async (type) => {
    const queue = await kit.broker.create(type)
    const attempts: number[] = []
    const guard = guardOf(
      ({ attempt }) => {
        attempts.push(attempt)
        if (attempt < 5) throw new Error('not yet')
      },
      { retry: { attempts: 6, baseMs: 50, maxMs: 50 } },
    )
    const options = { queue, holdMs: 0, retryLevelsMs: [100] }
    await using consumption = await consumeAmqp(kit.open, guard, options)
    const expired = { queue, reason: 'expired', exchange: '', 'routing-keys': [queue], count: 1 }
    await kit.broker.send(queue, ['once'], { headers: { 'x-death': [expired] } })
    await until(async () => attempts.length === 5 && isEmpty(queue, consumption))
    expect(attempts).toEqual([1, 2, 3, 4, 5])
  },
)

// Red when a copy drops or adds a header: the x-death of the delay queue is none of the consumer's business.
test.each(TYPES)(
  'a message that was dead-lettered to a %s queue keeps its x-death through all deferrals',
  async (type) => {
    const queue = await kit.broker.create(type)
    const source = await kit.broker.create('classic', {
      'x-message-ttl': 1,
      'x-dead-letter-exchange': '',
      'x-dead-letter-routing-key': queue,
    })
    const seen: unknown[] = []
    const guard = guardOf(
      (event) => {
        seen.push(amqpMessage(event)?.properties.headers)
        if (event.attempt < 4) throw new Error('not yet')
      },
      { retry: { attempts: 6, baseMs: 50, maxMs: 50 } },
    )
    const options = { queue, holdMs: 0, retryLevelsMs: [100] }
    await using consumption = await consumeAmqp(kit.open, guard, options)
    await kit.broker.send(source, ['once'], {
      headers: { 'x-onceward-reason': 'of an earlier life' },
    })
    await until(async () => seen.length === 4 && isEmpty(queue, consumption))
    expect(seen[0]).toMatchObject({
      'x-death': [{ queue: source, reason: 'expired', count: 1 }],
      'x-onceward-reason': 'of an earlier life',
    })
    expect(seen).toEqual([seen[0], seen[0], seen[0], seen[0]])
  },
)

test("'dlx' rejects dead messages to the dead-letter exchange of the queue", async () => {
  const dead = await kit.broker.create()
  const queue = await kit.broker.create('classic', {
    'x-dead-letter-exchange': '',
    'x-dead-letter-routing-key': dead,
  })
  await using _ = await consumeAmqp(kit.open, guardOf(fatal), { queue, deadLetter: 'dlx' })
  await kit.broker.send(queue, ['fatal'])
  await until(async () => (await kit.broker.ready(dead)) === 1)
  const message = await kit.broker.get(dead)
  expect(message?.properties.headers?.['x-death']?.[0]?.reason).toBe('rejected')
})

test('a dead letter goes through an exchange, with its origin and without the headers of the broker', async () => {
  const queue = await kit.broker.create('quorum')
  const dead = await kit.broker.create()
  const exchange = `${dead}-exchange`
  await kit.broker.channel.assertExchange(exchange, 'topic')
  await kit.broker.channel.bindQueue(dead, exchange, 'dead.*')
  const guard = guardOf(fatal)
  const deadLetter = { exchange, routingKey: 'dead.orders' }
  await using _ = await consumeAmqp(kit.open, guard, { queue, deadLetter })
  await kit.broker.send(queue, ['fatal'], {
    messageId: 'm-1',
    expiration: '60000',
    headers: { 'x-death': [{ count: 3 }], 'x-delivery-count': 7, 'x-mine': 'kept' },
  })
  await until(async () => (await kit.broker.ready(dead)) === 1)
  const { properties } = (await kit.broker.get(dead)) ?? {}
  expect(properties).toMatchObject({ messageId: 'm-1', deliveryMode: 2, expiration: undefined })
  expect(properties?.headers).toMatchObject({
    'x-mine': 'kept',
    'Idempotency-Key': 'fatal',
    'x-onceward-reason': 'fatal',
    'x-onceward-origin': queue,
    'x-onceward-routing-key': queue,
  })
  expect(Object.keys(properties?.headers ?? {})).not.toContain('x-death')
  expect(Object.keys(properties?.headers ?? {})).not.toContain('x-delivery-count')
})

// Red when a crash after the publish and before the ack doubles the effect.
test('one of two copies of a deferred message has an effect', async () => {
  const queue = await kit.broker.create()
  const inbox = memoryInbox()
  const runs: string[] = []
  const guard = guardOf(({ key }) => void runs.push(key), {}, inbox)
  await assertRetryTopology(kit.broker.channel, queue, [100])
  await kit.broker.send(`${queue}.retry.100`, ['once'], { headers: { 'x-onceward-deferrals': 1 } })
  await kit.broker.send(queue, ['once'])
  await using consumption = await consumeAmqp(kit.open, guard, { queue, retryLevelsMs: [100] })
  await until(async () => runs.length > 0 && (await kit.broker.ready(`${queue}.retry.100`)) === 0)
  await until(() => isEmpty(queue, consumption))
  expect(runs).toEqual(['once'])
})

// Red when the message is returned: the queue counts it, and the fourth delivery drops the message.
test('in a loop of a framework, an outage of the store does not use up the delivery limit', async () => {
  const dead = await kit.broker.create()
  const queue = await kit.broker.create('quorum', {
    'x-delivery-limit': 2,
    'x-dead-letter-exchange': '',
    'x-dead-letter-routing-key': dead,
  })
  const inbox = downInbox()
  const done: string[] = []
  const guard = guardOf(({ key }) => void done.push(key), {}, inbox)
  const connection = await kit.open()
  const channel = await connection.createConfirmChannel()
  let outages = 0
  inbox.isDown = true
  await channel.prefetch(1)
  const handle = async (message: ConsumeMessage): Promise<void> => {
    const settlement = await guard.process(fromAmqpMessage(message, queue))
    if (settlement.kind === 'defer') outages += 1
    if (outages === 5) inbox.isDown = false
    await settleAmqp(channel, message, settlement)
  }
  await channel.consume(queue, (message) => {
    if (message !== null) void handle(message)
  })
  await kit.broker.send(queue, ['a'])
  await until(() => done.length === 1, { deadlineMs: 60_000 })
  await until(async () => (await kit.broker.ready(queue)) === 0)
  expect(outages).toBe(5)
  expect(await kit.broker.ready(dead)).toBe(0)
  await guard.close()
  await connection.close()
})
