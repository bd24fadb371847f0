import { ReceiveMessageCommand } from '@aws-sdk/client-sqs'
import { FatalError } from '@onceward/core'
import { type Server, sqs, until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { Consumer } from 'sqs-consumer'
import { Consumer as Consumer12 } from 'sqs-consumer-12'
import { Consumer as Consumer13 } from 'sqs-consumer-13'
import { Consumer as Consumer14 } from 'sqs-consumer-14'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { hurt } from './fixtures/hurt.ts'
import { Queues } from './fixtures/queues.ts'
import { receiveAttributes, sqsMessage, wrapSqs } from './index.ts'

let server: Server<ConstructorParameters<typeof Queues>[0]>
let queues: Queues

beforeAll(async () => {
  server = await sqs()
  queues = new Queues(server.connection)
})
afterAll(() => server.stop())

const keysOf = (count: number): string[] => Array.from({ length: count }, (_, n) => `k-${n}`)

test('wrapSqs works in a loop of the user that receives and hands over until all messages are settled', async () => {
  const queueUrl = await queues.create()
  const deadUrl = await queues.create()
  const bodies: (string | undefined)[] = []
  const guard = guardOf((event) => {
    bodies.push(sqsMessage(event)?.Body)
    if (event.key === 'k-3') throw new FatalError('no')
    if (event.key === 'k-5' && event.attempt === 1) throw new Error('not yet')
  })
  const deadLetter = { queueUrl: deadUrl }
  const handle = wrapSqs(queues.client, guard, { queueUrl, deadLetter })
  await queues.send(queueUrl, [...keysOf(30), 'k-1', 'k-2'])
  const input = { QueueUrl: queueUrl, MaxNumberOfMessages: 10, ...receiveAttributes }
  while (!(await queues.isEmpty(queueUrl))) {
    await handle((await queues.client.send(new ReceiveMessageCommand(input))).Messages)
  }
  await guard.close()
  expect(bodies.filter((body) => body === JSON.stringify({ key: 'k-5' }))).toHaveLength(2)
  expect(new Set(bodies).size).toBe(30)
  expect(bodies).toHaveLength(31)
  expect(await queues.depth(deadUrl)).toEqual([1, 0])
})

// Each major has its own types; what is used here is the same in all.
const MAJORS: readonly (readonly [string, typeof Consumer])[] = [
  ['12', Consumer12 as unknown as typeof Consumer],
  ['13', Consumer13 as unknown as typeof Consumer],
  ['14', Consumer14 as unknown as typeof Consumer],
  ['15', Consumer],
]

// Red when the wrap answers `undefined`, which 12 and 13 take for "delete all", and when it answers its messages.
test.each(MAJORS)(
  'handleMessageBatch of sqs-consumer %s does not delete messages that the guard settles or defers',
  async (_major, Consumed) => {
    const queueUrl = await queues.create()
    const runs: string[] = []
    const guard = guardOf((event) => {
      runs.push(event.key)
      if (event.attempt === 1 && event.key === 'k-7') throw new Error('not yet')
    })
    const client = queues.another()
    let deletes = 0
    hurt(client, (command) => {
      if (command.startsWith('Delete')) deletes += 1
    })
    const consumer = Consumed.create({
      queueUrl,
      sqs: client,
      batchSize: 10,
      waitTimeSeconds: 1,
      messageSystemAttributeNames: ['All'],
      messageAttributeNames: ['All'],
      handleMessageBatch: wrapSqs(queues.client, guard, { queueUrl }),
    })
    const errors: unknown[] = []
    consumer.on('error', (error) => errors.push(error))
    await queues.send(queueUrl, [...keysOf(40), ...keysOf(10)])
    consumer.start()
    await until(() => queues.isEmpty(queueUrl))
    consumer.stop({ abort: true })
    expect(runs.toSorted()).toEqual([...keysOf(40), 'k-7'].toSorted())
    expect(deletes).toBe(0)
    expect(errors).toEqual([])
  },
)

test('sqs-consumer without the attributes gets an error that names them, and loses no message', async () => {
  const queueUrl = await queues.create()
  const runs: string[] = []
  const guard = guardOf((event) => void runs.push(event.key))
  const handle = wrapSqs(queues.client, guard, { queueUrl })
  const errors: Error[] = []
  const consumer = Consumer.create({
    queueUrl,
    sqs: queues.another(),
    waitTimeSeconds: 1,
    handleMessageBatch: handle,
  })
  consumer.on('error', (error) => errors.push(error))
  await queues.send(queueUrl, ['a'])
  consumer.start()
  await until(() => errors.length > 0)
  consumer.stop({ abort: true })
  expect(errors[0]?.message).toMatch(/messageSystemAttributeNames/)
  expect(runs).toEqual([])
  expect(await queues.isEmpty(queueUrl)).toBe(false)
})

test('a closed guard returns messages that arrive later', async () => {
  const queueUrl = await queues.create()
  const guard = guardOf(() => undefined)
  const handle = wrapSqs(queues.client, guard, { queueUrl })
  await queues.send(queueUrl, ['a'])
  const messages = await queues.receive(queueUrl)
  await guard.close()
  await handle(messages)
  expect(await queues.depth(queueUrl)).toEqual([1, 0])
})
