import { FatalError } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { type Server, sqs, until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { failure, hurt } from './fixtures/hurt.ts'
import { Queues } from './fixtures/queues.ts'
import { type ConsumeSqsOptions, consumeSqs } from './index.ts'

let server: Server<ConstructorParameters<typeof Queues>[0]>
let queues: Queues

beforeAll(async () => {
  server = await sqs()
  queues = new Queues(server.connection)
})
afterAll(() => server.stop())

const fast = { longPollMs: 1_000, drainMs: 2_000 } satisfies Partial<ConsumeSqsOptions>
const keysOf = (count: number): string[] => Array.from({ length: count }, (_, n) => `k-${n}`)

test('processes each message once, copies included, and empties the queue', async () => {
  const queueUrl = await queues.create()
  const keys = keysOf(200)
  await queues.send(queueUrl, [...keys, ...keys.slice(0, 50)])
  const runs: string[] = []
  const guard = guardOf((event) => void runs.push(event.payload.key))
  await using consumption = await consumeSqs(queues.client, guard, { queueUrl, ...fast })
  await until(() => queues.isEmpty(queueUrl))
  expect(runs.toSorted()).toEqual(keys.toSorted())
  expect(consumption.health()).toMatchObject({ state: 'running', inFlight: 0, settleFailures: 0 })
})

test('a batch guard processes each message once and empties the queue', async () => {
  const queueUrl = await queues.create()
  const keys = keysOf(200)
  await queues.send(queueUrl, keys)
  const runs: string[] = []
  const guard = guardOf((event) => void runs.push(event.payload.key), { transaction: 'batch' })
  await using _ = await consumeSqs(queues.client, guard, { queueUrl, ...fast })
  await until(() => queues.isEmpty(queueUrl))
  expect(runs.toSorted()).toEqual(keys.toSorted())
})

test('a failed event is retried, and a fatally failed event is dead-lettered with its reason', async () => {
  const queueUrl = await queues.create()
  const deadUrl = await queues.create()
  const attempts: Record<string, number> = {}
  const guard = guardOf(
    (event) => {
      attempts[event.key] = event.attempt
      if (event.key === 'fatal') throw new FatalError('no such order')
      if (event.key === 'always') throw new Error('declined')
      if (event.attempt === 1) throw new Error('not yet')
    },
    { retry: { attempts: 2, baseMs: 0 } },
  )
  await queues.send(queueUrl, ['again', 'fatal', 'always'])
  const deadLetter = { queueUrl: deadUrl }
  await using _ = await consumeSqs(queues.client, guard, { queueUrl, deadLetter, ...fast })
  await until(() => queues.isEmpty(queueUrl))
  expect(attempts).toEqual({ again: 2, fatal: 1, always: 2 })
  const dead = await until(async () => {
    const found = await queues.receive(deadUrl)
    return found.length === 2 ? found : undefined
  })
  const reasons = dead.map(({ Body, MessageAttributes }) => [
    JSON.parse(Body ?? '').key,
    MessageAttributes?.['x-onceward-reason']?.StringValue,
    MessageAttributes?.['x-onceward-error']?.StringValue,
    MessageAttributes?.['Idempotency-Key']?.StringValue,
  ])
  expect(reasons.toSorted()).toEqual([
    ['always', 'attempts-spent', expect.stringContaining('declined'), 'always'],
    ['fatal', 'fatal', expect.stringContaining('no such order'), 'fatal'],
  ])
})

// Red when a deferral hides the message for the wrong time or for none: the copy is delivered over and over.
test('an event that runs for five seconds is redelivered at most three times: no hot loop', async () => {
  const queueUrl = await queues.create()
  const inbox = memoryInbox()
  const gate = Promise.withResolvers<void>()
  let deliveries = 0
  const owner = guardOf(() => gate.promise, { concurrency: 1 }, inbox)
  const observe = (): void => {
    deliveries += 1
  }
  const other = guardOf(() => undefined, { observe }, inbox)
  await queues.send(queueUrl, ['slow', 'slow'])
  await using first = await consumeSqs(queues.client, owner, { queueUrl, ...fast })
  await until(async () => first.health().inFlight > 0)
  await using _second = await consumeSqs(queues.client, other, { queueUrl, ...fast })
  const started = performance.now()
  await until(() => performance.now() - started > 5_000)
  gate.resolve()
  await until(() => queues.isEmpty(queueUrl), { deadlineMs: 40_000 })
  expect(deliveries).toBeLessThanOrEqual(4)
})

test('poison messages do not stop other messages from being processed', async () => {
  const queueUrl = await queues.create()
  const done: string[] = []
  const guard = guardOf(
    (event) => {
      if (event.payload.key.startsWith('poison')) throw new Error('poison')
      done.push(event.payload.key)
    },
    { retry: { attempts: 5, baseMs: 60_000, maxMs: 60_000 } },
  )
  const keys = keysOf(100)
  await queues.send(queueUrl, ['poison-1', ...keys.slice(0, 50), 'poison-2', ...keys.slice(50)])
  await using _ = await consumeSqs(queues.client, guard, { queueUrl, ...fast })
  await until(() => done.length === 100)
  await until(async () => (await queues.depth(queueUrl)).join() === '0,2')
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

test.each(Object.keys(bad))('a handler that %s does not stop the consumer', async (name) => {
  const queueUrl = await queues.create()
  const done: string[] = []
  const guard = guardOf(
    (event) => {
      if (event.payload.key !== 'bad') done.push(event.payload.key)
      else return bad[name]?.() as never
    },
    { deadlineMs: 300, retry: { attempts: 1, baseMs: 0 }, concurrency: 2 },
  )
  await queues.send(queueUrl, ['bad'])
  await using consumption = await consumeSqs(queues.client, guard, { queueUrl, ...fast })
  await until(() => queues.isEmpty(queueUrl), { deadlineMs: 15_000 })
  await queues.send(queueUrl, ['good'])
  await until(() => done.includes('good'))
  expect(consumption.health().state).toBe('running')
})

test('a drain gives unstarted messages back while the running handler still runs', async () => {
  const queueUrl = await queues.create()
  const gate = Promise.withResolvers<void>()
  let running = 0
  const guard = guardOf(
    async (event) => {
      if (event.payload.key.startsWith('quick')) return
      running += 1
      await gate.promise
    },
    { concurrency: 1 },
  )
  const quick = Array.from({ length: 30 }, (_, n) => `quick-${n}`)
  await queues.send(queueUrl, quick)
  const consumption = await consumeSqs(queues.client, guard, { queueUrl, longPollMs: 20_000 })
  await until(() => queues.isEmpty(queueUrl))
  await queues.send(queueUrl, keysOf(10))
  await until(() => running === 1 && consumption.health().inFlight === 10)
  const drained = consumption.drain()
  // While the handler runs, long before `drainMs` is over.
  await until(async () => (await queues.depth(queueUrl))[0] === 9)
  gate.resolve()
  await drained
  expect(await queues.depth(queueUrl)).toEqual([9, 0])
  expect(consumption.health()).toMatchObject({ state: 'stopped', inFlight: 0 })
})

const MIB = 1_024 * 1_024

// The last one is red when a dead letter without the headers of its reason is tried only if it is large.
test.each([
  [256 * 1_024, MIB],
  [MIB - 200, MIB],
  [850, 1_024],
])(
  'a body of %i bytes is processed, and its dead letter fits a queue for %i bytes',
  async (size, limit) => {
    const limited = { MaximumMessageSize: String(limit) }
    const queueUrl = await queues.create(limited)
    const deadUrl = await queues.create(limited)
    const sizes: number[] = []
    const guard = guardOf((event) => {
      sizes.push(event.body.length)
      if (event.key === 'fatal') throw new FatalError('no')
    })
    const body = JSON.stringify({ key: 'x'.repeat(size - 10) })
    await queues.sendBody(queueUrl, body, 'fine')
    await queues.sendBody(queueUrl, body, 'fatal')
    const deadLetter = { queueUrl: deadUrl }
    await using _ = await consumeSqs(queues.client, guard, { queueUrl, deadLetter, ...fast })
    await until(() => queues.isEmpty(queueUrl))
    expect(sizes).toEqual([size, size])
    const [dead] = await queues.receive(deadUrl)
    expect(dead?.Body).toBe(body)
    expect(dead?.MessageAttributes?.['Idempotency-Key']?.StringValue).toBe('fatal')
  },
)

// Red when a deferral hides for no time (a hot loop), or when each guard has its own inbox (two effects).
test('trap T20: an event has one effect if its visibility timeout ends during the handler', async () => {
  const queueUrl = await queues.create()
  const inbox = memoryInbox()
  const effects: string[] = []
  const gate = Promise.withResolvers<void>()
  const clumsy = queues.another()
  hurt(clumsy, (command) => {
    if (command === 'ChangeMessageVisibilityBatch') throw failure('ServiceUnavailable')
  })
  const slow = guardOf(
    async (event) => {
      await gate.promise
      effects.push(event.key)
    },
    { concurrency: 1 },
    inbox,
  )
  const deferred: number[] = []
  const quick = guardOf(
    (event) => void effects.push(event.key),
    {
      observe: ({ settlement }: { settlement: { kind: string } }) => {
        if (settlement.kind === 'defer') deferred.push(1)
      },
    },
    inbox,
  )
  await queues.send(queueUrl, ['once'])
  const options = { queueUrl, visibilityMs: 1_000, ...fast }
  await using first = await consumeSqs(clumsy, slow, options)
  await until(() => first.health().inFlight === 1)
  await using _second = await consumeSqs(queues.client, quick, options)
  await until(() => deferred.length > 0)
  gate.resolve()
  await until(() => queues.isEmpty(queueUrl), { deadlineMs: 20_000 })
  expect(effects).toEqual(['once'])
})

test('the consumer recovers from expired credentials, and health reports them', async () => {
  const queueUrl = await queues.create()
  const client = queues.another()
  let isExpired = false
  hurt(client, () => {
    if (isExpired) throw failure('ExpiredTokenException')
  })
  const done: string[] = []
  const guard = guardOf((event) => void done.push(event.key))
  await using consumption = await consumeSqs(client, guard, { queueUrl, ...fast })
  isExpired = true
  await until(() => consumption.health().state === 'recovering')
  expect(consumption.health().reason).toBe('ExpiredTokenException: injected')
  isExpired = false
  await queues.send(queueUrl, ['after'])
  await until(() => done.length === 1)
  expect(consumption.health().state).toBe('running')
})

test('the start fails with the name of a queue that does not exist, the dead-letter queue included', async () => {
  const queueUrl = await queues.create()
  const guard = guardOf(() => undefined)
  const missing = `${queueUrl}-missing`
  await expect(consumeSqs(queues.client, guard, { queueUrl: missing })).rejects.toThrow(missing)
  const deadLetter = { queueUrl: missing }
  await expect(consumeSqs(queues.client, guard, { queueUrl, deadLetter })).rejects.toThrow(missing)
})

// Red when the identity is taken from the message id: a redrive gives a new one, and the event runs again.
test('a message that returns from a redrive with a new id is a duplicate', async () => {
  const queueUrl = await queues.create()
  const client = queues.another()
  const runs: string[] = []
  const guard = guardOf((event) => void runs.push(event.key))
  await queues.send(queueUrl, ['once'])
  await using _ = await consumeSqs(client, guard, { queueUrl, ...fast })
  await until(() => queues.isEmpty(queueUrl))
  await queues.send(queueUrl, ['once'])
  await until(() => queues.isEmpty(queueUrl))
  expect(runs).toEqual(['once'])
})
