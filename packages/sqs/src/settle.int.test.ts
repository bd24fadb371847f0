import { ReceiveMessageCommand } from '@aws-sdk/client-sqs'
import { FatalError, StoreUnavailableError } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { type Server, sqs, until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { hurt } from './fixtures/hurt.ts'
import { Queues } from './fixtures/queues.ts'
import { consumeSqs, fromSqsMessage, receiveAttributes, settleSqs, wrapSqs } from './index.ts'

// Only ElasticMQ answers `Failed[]`, keeps the order of groups and applies the redrive policy.
let server: Server<ConstructorParameters<typeof Queues>[0]>
let queues: Queues

beforeAll(async () => {
  server = await sqs({ engine: 'elasticmq' })
  queues = new Queues(server.connection)
})
afterAll(() => server.stop())

const fast = { longPollMs: 1_000, drainMs: 2_000 }
const fifo = { FifoQueue: 'true', VisibilityTimeout: '30' } as const
const groupOf = (key: string): string => key.charAt(0)

test('groups of a FIFO queue run in order and independently of each other', async () => {
  const queueUrl = await queues.create(fifo)
  const keys = Array.from({ length: 60 }, (_, n) => `${'abc'.charAt(n % 3)}${n}`)
  await queues.send(queueUrl, keys, groupOf)
  const done: string[] = []
  const guard = guardOf((event) => void done.push(event.key))
  await using _ = await consumeSqs(queues.client, guard, { queueUrl, ...fast })
  await until(() => queues.isEmpty(queueUrl), { deadlineMs: 30_000 })
  for (const group of ['a', 'b', 'c']) {
    const expected = keys.filter((key) => key.startsWith(group))
    expect(done.filter((key) => key.startsWith(group))).toEqual(expected)
  }
})

// Red when followers of a deferred head are run: b0 would come after b1.
test('a failing head of a group blocks its own group and no other', async () => {
  const queueUrl = await queues.create(fifo)
  const done: string[] = []
  let failures = 0
  const guard = guardOf(
    (event) => {
      if (event.key === 'b0' && event.attempt < 3) {
        failures += 1
        throw new Error('not yet')
      }
      done.push(event.key)
    },
    { retry: { attempts: 5, baseMs: 1_000, maxMs: 1_000 } },
  )
  await queues.send(queueUrl, ['b0', 'b1', 'b2', 'a0', 'a1', 'c0'], groupOf)
  await using _ = await consumeSqs(queues.client, guard, { queueUrl, ...fast })
  await until(() => done.length === 3)
  expect(done.toSorted()).toEqual(['a0', 'a1', 'c0'])
  await until(() => queues.isEmpty(queueUrl), { deadlineMs: 30_000 })
  expect(done.slice(3)).toEqual(['b0', 'b1', 'b2'])
  expect(failures).toBe(2)
})

test('a dead head of a group goes to the FIFO dead-letter queue, and the next messages of the group run', async () => {
  const queueUrl = await queues.create(fifo)
  const deadUrl = await queues.create(fifo)
  const done: string[] = []
  const guard = guardOf((event) => {
    if (event.key === 'a0') throw new FatalError('no such order')
    done.push(event.key)
  })
  await queues.send(queueUrl, ['a0', 'a1', 'a2'], groupOf)
  const sent = await queues.receive(queueUrl, 0)
  const deadLetter = { queueUrl: deadUrl }
  await using _ = await consumeSqs(queues.client, guard, { queueUrl, deadLetter, ...fast })
  await until(() => queues.isEmpty(queueUrl), { deadlineMs: 30_000 })
  expect(done).toEqual(['a1', 'a2'])
  const [dead] = await queues.receive(deadUrl)
  expect(dead?.Attributes).toMatchObject({
    MessageGroupId: 'a',
    MessageDeduplicationId: sent[0]?.MessageId,
  })
})

test("'redrive' leaves a dead message to the queue's redrive policy, and does not run it again", async () => {
  const { queueUrl, deadUrl } = await queues.createPair(2)
  const client = queues.another()
  // Shortens the pauses of five seconds and more.
  hurt(client, (command, input) => {
    if (command !== 'ChangeMessageVisibilityBatch') return undefined
    for (const entry of input['Entries'] as { VisibilityTimeout: number }[]) {
      expect(entry.VisibilityTimeout).toBeGreaterThanOrEqual(5)
      expect(entry.VisibilityTimeout).toBeLessThanOrEqual(30)
      entry.VisibilityTimeout = 1
    }
    return undefined
  })
  let runs = 0
  const guard = guardOf(() => {
    runs += 1
    throw new FatalError('no')
  })
  await queues.send(queueUrl, ['dead'])
  const options = { queueUrl, deadLetter: 'redrive', ...fast } as const
  await using _ = await consumeSqs(client, guard, options)
  await until(async () => (await queues.depth(deadUrl))[0] === 1, { deadlineMs: 20_000 })
  expect(await queues.isEmpty(queueUrl)).toBe(true)
  expect(runs).toBe(1)
})

// Red when an answer of 200 is taken for success: the refused entry is not reported.
test('trap T21: one stale receipt in a batch is reported and does not stop the others', async () => {
  const queueUrl = await queues.create({ VisibilityTimeout: '30' })
  await queues.send(queueUrl, ['a', 'b', 'c', 'd'])
  const warnings: object[] = []
  const warn = (fields: object): void => void warnings.push(fields)
  const guard = guardOf(() => undefined, {
    logger: { debug() {}, info() {}, warn, error() {} },
  })
  const handle = wrapSqs(queues.client, guard, { queueUrl })
  const messages = await queues.receive(queueUrl, 30)
  expect(messages).toHaveLength(4)
  const [first] = messages
  const mixed = messages.map((each) =>
    each === first ? { ...each, ReceiptHandle: 'no-such-receipt' } : each,
  )
  await handle(mixed)
  expect(await queues.depth(queueUrl)).toEqual([0, 1])
  expect(warnings).toEqual([
    expect.objectContaining({ verb: 'delete', messageId: first?.MessageId }),
  ])
})

// Red when an error of the delete is thrown: the loop ends, or the effect counts as failed and is repeated.
test('an expired receipt of a FIFO queue is reported, and the redelivery is a duplicate', async () => {
  const queueUrl = await queues.create(fifo)
  const client = queues.another()
  let deletes = 0
  hurt(client, (command, input) => {
    if (command !== 'DeleteMessageBatch') return undefined
    deletes += 1
    if (deletes > 1) return undefined
    const entries = input['Entries'] as { readonly Id: string }[]
    const Code = 'InvalidParameterValue'
    return { Failed: entries.map(({ Id }) => ({ Id, SenderFault: true, Code })) }
  })
  const runs: string[] = []
  const guard = guardOf((event) => void runs.push(event.key))
  await queues.send(queueUrl, ['a0'], groupOf)
  const options = { queueUrl, visibilityMs: 1_000, ...fast }
  await using consumption = await consumeSqs(client, guard, options)
  await until(() => queues.isEmpty(queueUrl), { deadlineMs: 20_000 })
  expect(runs).toEqual(['a0'])
  expect(consumption.health().settleFailures).toBe(1)
})

test('acceptance A13: a message whose deferral beyond twelve hours SQS refuses returns by its visibility timeout', async () => {
  const queueUrl = await queues.create({ VisibilityTimeout: '30' })
  const client = queues.another()
  const asked: number[] = []
  let refusals = 0
  hurt(client, (command, input) => {
    if (command !== 'ChangeMessageVisibilityBatch') return undefined
    const entries = input['Entries'] as { readonly Id: string; VisibilityTimeout: number }[]
    asked.push(...entries.map((entry) => entry.VisibilityTimeout))
    refusals += 1
    if (refusals > 1) return undefined
    const Code = 'InvalidParameterValue'
    return { Failed: entries.map(({ Id }) => ({ Id, SenderFault: true, Code })) }
  })
  const twelveHours = 43_200_000
  const attempts: number[] = []
  const guard = guardOf(
    (event) => {
      attempts.push(event.attempt)
      if (event.attempt === 1) throw new Error('tomorrow')
    },
    { retry: { attempts: 3, baseMs: twelveHours, maxMs: twelveHours } },
  )
  await queues.send(queueUrl, ['late'])
  const options = { queueUrl, visibilityMs: 1_000, ...fast }
  await using _ = await consumeSqs(client, guard, options)
  await until(() => asked.length >= 2, { deadlineMs: 20_000 })
  expect(Math.max(...asked)).toBeLessThan(43_200)
  expect(attempts).toEqual([1])
})

// Red when the drain aborts its receive: the server hands the message to nobody, and it is hidden for ten minutes.
test('trap B2: a message that comes during a drain is given back, and the next consumer has it', async () => {
  const queueUrl = await queues.create()
  const hidden = { queueUrl, visibilityMs: 600_000 }
  const first = guardOf(() => undefined)
  const drained = await consumeSqs(queues.client, first, { ...hidden, longPollMs: 20_000 })
  // The long poll that finds nothing more is open by now.
  await queues.send(queueUrl, ['early'])
  await until(() => queues.isEmpty(queueUrl))
  const end = drained.drain()
  await queues.send(queueUrl, ['late'])
  await end
  const ran: string[] = []
  const next = guardOf((event) => void ran.push(event.key))
  await using _ = await consumeSqs(queues.client, next, { ...hidden, ...fast })
  await until(() => ran.length === 1)
  expect(ran).toEqual(['late'])
})

// Red when the time of hiding counts from the start of a long poll: it is over before the message is there.
test('a delete that SQS fails at is repeated, also after a long poll that lasted longer than the visibility timeout', async () => {
  const queueUrl = await queues.create()
  const client = queues.another()
  let polledAt: number | undefined
  let deletes = 0
  hurt(client, (command) => {
    if (command === 'ReceiveMessage') polledAt ??= Date.now()
    if (command !== 'DeleteMessageBatch') return undefined
    deletes += 1
    if (deletes > 1) return undefined
    return { Failed: [{ Id: '0', SenderFault: false, Code: 'InternalError' }] }
  })
  const settled: (string | undefined)[] = []
  const guard = guardOf(() => undefined, {
    observe: ({ settlement }) =>
      void settled.push('by' in settlement ? settlement.by : settlement.kind),
  })
  const options = { queueUrl, visibilityMs: 1_000, longPollMs: 10_000, drainMs: 2_000 }
  await using _ = await consumeSqs(client, guard, options)
  await until(() => polledAt !== undefined && Date.now() - polledAt > 1_500)
  await queues.send(queueUrl, ['once'])
  await until(async () => deletes > 1 && (await queues.isEmpty(queueUrl)), { deadlineMs: 30_000 })
  expect(settled).toEqual(['processed'])
})

// Red when a message is hidden for as long as the guard waits: after three seconds it is in the dead-letter queue.
test('in a loop of a framework, an outage of the store does not spend the receives of a message', async () => {
  const { deadUrl, queueUrl } = await queues.createPair(2)
  const open = () => Promise.reject(new StoreUnavailableError('down'))
  const guard = guardOf(() => undefined, {}, { ...memoryInbox(), open })
  await queues.send(queueUrl, ['a'])
  const since = performance.now()
  while (performance.now() - since < 8_000) {
    const received = await queues.client.send(
      new ReceiveMessageCommand({ QueueUrl: queueUrl, WaitTimeSeconds: 1, ...receiveAttributes }),
    )
    for (const message of received.Messages ?? []) {
      const settlement = await guard.process(fromSqsMessage(message, queueUrl))
      expect(settlement).toMatchObject({ reason: 'store-down' })
      await settleSqs(queues.client, message, settlement, { queueUrl })
    }
  }
  expect(await queues.depth(deadUrl)).toEqual([0, 0])
  expect(await queues.depth(queueUrl)).toEqual([0, 1])
  await guard.close()
})
