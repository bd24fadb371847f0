import { SendMessageCommand } from '@aws-sdk/client-sqs'
import { s3TestEvent, unwrapEventBridge, unwrapSns } from '@onceward/core'
import { type Server, sqs, until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Queues } from './fixtures/queues.ts'
import { consumeSqs } from './index.ts'

let server: Server<ConstructorParameters<typeof Queues>[0]>
let queues: Queues

beforeAll(async () => {
  server = await sqs()
  queues = new Queues(server.connection)
})
afterAll(() => server.stop())

const inSns = (MessageId: string, payload: unknown, more: object = {}): object => ({
  ...{ Type: 'Notification', MessageId, TopicArn: 'arn:aws:sns:eu-central-1:1:orders' },
  ...{ Message: JSON.stringify(payload), Timestamp: new Date().toISOString(), Signature: 'x' },
  ...more,
})

const inEventBridge = (id: string, detail: unknown): object => ({
  ...{ version: '0', id, 'detail-type': 'OrderPlaced', source: 'my.shop', account: '1' },
  ...{ time: '2026-11-22T10:00:00Z', region: 'eu-central-1', resources: [], detail },
})

const s3Test = { Service: 'Amazon S3', Event: 's3:TestEvent', Bucket: 'orders' }

// Red when the default keys do not know SNS and EventBridge: all of these were dead-lettered as missing-event-key.
test.each([
  [
    'SNS, with its copies and the test event of S3',
    unwrapSns(),
    [
      inSns('sns-1', { n: 1 }),
      inSns('sns-1', { n: 1 }, { Signature: 'y' }),
      inSns('sns-2', { n: 2 }),
      s3Test,
      inSns('sns-3', s3Test),
    ],
    ['sns-1 {"n":1}', 'sns-2 {"n":2}'],
  ],
  [
    'EventBridge, with a copy',
    unwrapEventBridge(),
    [inEventBridge('e-1', { n: 1 }), inEventBridge('e-1', { n: 1 }), inEventBridge('e-2', [])],
    ['e-1 {"n":1}', 'e-2 []'],
  ],
])('consumeSqs runs the messages of %s, each once', async (_, decode, messages, expected) => {
  const queueUrl = await queues.create()
  const deadUrl = await queues.create()
  for (const message of messages) {
    const input = { QueueUrl: queueUrl, MessageBody: JSON.stringify(message) }
    await queues.client.send(new SendMessageCommand(input))
  }
  const ran: string[] = []
  const guard = guardOf(({ key, payload }) => void ran.push(`${key} ${JSON.stringify(payload)}`), {
    decode,
    skip: s3TestEvent,
  } as Parameters<typeof guardOf>[1])
  const options = { queueUrl, deadLetter: { queueUrl: deadUrl }, longPollMs: 1_000 }
  await using _consumption = await consumeSqs(queues.client, guard, options)
  await until(() => queues.isEmpty(queueUrl), { deadlineMs: 30_000 })
  expect(ran.toSorted()).toEqual(expected)
  expect(await queues.isEmpty(deadUrl)).toBe(true)
  await guard.close()
})
