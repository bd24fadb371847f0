import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import {
  CreateQueueCommand,
  GetQueueAttributesCommand,
  SendMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs'
import { toDelivery } from '@onceward/core/memory'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { type Server, type SqsConnection, sqs, until } from '@onceward/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createBilling } from '../../docs/samples/batch.ts'
import { createPayments } from '../../docs/samples/http-effect.ts'
import '../../docs/samples/unit-test.ts'
import { openScene, run, runToEnd, type Sample, terminate } from '../support/samples.ts'

const samples = join(import.meta.dirname, '../../docs/samples')

let queues: Server<SqsConnection>
let client: SQSClient
beforeAll(async () => {
  queues = await sqs()
  client = new SQSClient(queues.connection)
})
afterAll(async () => {
  client.destroy()
  await queues.stop()
})

/** With a queue of its own. */
async function openQueueScene() {
  const QueueName = `samples-${crypto.randomUUID()}`
  const { QueueUrl = '' } = await client.send(new CreateQueueCommand({ QueueName }))
  const { endpoint, region, credentials } = queues.connection
  // The client that only knows its environment would take the host of the queue's URL.
  const queueUrl = new URL(new URL(QueueUrl).pathname, endpoint).href
  const scene = await openScene({
    ...{ QUEUE_URL: queueUrl, AWS_ENDPOINT_URL_SQS: endpoint, AWS_REGION: region },
    AWS_ACCESS_KEY_ID: credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
  })
  return { ...scene, queueUrl }
}

type Scene = Awaited<ReturnType<typeof openQueueScene>>

async function place(scene: Scene, order: object, copies = 1): Promise<void> {
  const input = { QueueUrl: scene.queueUrl, MessageBody: JSON.stringify(order) }
  for (let copy = 0; copy < copies; copy++) await client.send(new SendMessageCommand(input))
}

async function queueIsEmpty(scene: Scene, sample: Sample): Promise<void> {
  await until(
    async () => {
      expect(sample.process.exitCode, sample.output()).toBeNull()
      const answer = await client.send(
        new GetQueueAttributesCommand({ QueueUrl: scene.queueUrl, AttributeNames: ['All'] }),
      )
      const { ApproximateNumberOfMessages, ApproximateNumberOfMessagesNotVisible } =
        answer.Attributes ?? {}
      return ApproximateNumberOfMessages === '0' && ApproximateNumberOfMessagesNotVisible === '0'
    },
    { what: 'an empty queue', deadlineMs: 60_000 },
  )
}

describe('the samples of the documents run as they are', () => {
  test.concurrent.each(['first-screen', 'sqs-pg', 'sqs-kysely', 'own-loop', 'sqs-consumer'])(
    '%s charges an order that was sent twice once, and ends at SIGTERM',
    async (name) => {
      await using scene = await openQueueScene()
      expect(await runToEnd('migrate', scene)).toContain('version 2, applied now: 000001')
      await place(scene, { orderId: 'order-1', accountId: 1, cents: 1999 }, 2)
      await using sample = run(name, scene)
      await queueIsEmpty(scene, sample)
      const { rows } = await scene.pool.query('select * from charges')
      expect(rows).toEqual([{ order_id: 'order-1', cents: 1999 }])
      const code = await terminate(sample)
      // The first screen leaves its shutdown out.
      if (name !== 'first-screen') expect(code, sample.output()).toBe(0)
    },
  )

  test('dead-letters lists, replays and discards what sqs-pg has buried', async () => {
    await using scene = await openQueueScene()
    await migrate(scene.pool)
    await place(scene, { orderId: 'order-1', accountId: 2, cents: 1 })
    await place(scene, { nothing: 'of this schema' })
    await using consumer = run('sqs-pg', scene)
    await queueIsEmpty(scene, consumer)
    const output = await runToEnd('dead-letters', scene)
    expect(output).toMatch(/reason: 'fatal'/)
    expect(output).toMatch(/reason: 'invalid-payload'/)
    expect(output).toContain('0 will run again')
    const { rows } = await scene.pool.query('select who, action, why from onceward.audit')
    expect(rows).toEqual([{ who: 'alice', action: 'discard', why: 'test data of a producer' }])
  })

  test('batch charges every order of a batch once', async () => {
    await using scene = await openQueueScene()
    await migrate(scene.pool)
    const billing = createBilling(scene.pool)
    const orders = ['a', 'b', 'a'].map((orderId) => toDelivery({ orderId, cents: 1 }))
    const settlements = await billing.processBatch(orders)
    await billing.close()
    expect(settlements).toMatchObject([
      { by: 'processed' },
      { by: 'processed' },
      { by: 'duplicate' },
    ])
    const { rows } = await scene.pool.query('select order_id from charges order by 1')
    expect(rows).toEqual([{ order_id: 'a' }, { order_id: 'b' }])
  })

  test('http-effect sends the same idempotency key in every attempt', async () => {
    await using scene = await openQueueScene()
    await migrate(scene.pool)
    const keys: unknown[] = []
    const service = createServer((request, response) => {
      keys.push(request.headers['idempotency-key'])
      response.writeHead(keys.length === 1 ? 503 : 201).end()
    }).listen(0, '127.0.0.1')
    await once(service, 'listening')
    const { port } = service.address() as AddressInfo
    const payments = createPayments(pgInbox(scene.pool), `http://127.0.0.1:${port}`)
    const order = toDelivery({ orderId: 'a', cents: 1 })
    expect(await payments.process(order)).toMatchObject({ kind: 'defer', reason: 'failed' })
    await until(async () => (await payments.process(order)).kind === 'ack')
    await payments.close()
    service.close()
    expect(keys).toHaveLength(2)
    expect(keys[0]).toEqual(expect.any(String))
    expect(keys[1]).toBe(keys[0])
  })

  test('the SQL of docs/operations.md is valid', async () => {
    await using scene = await openQueueScene()
    await migrate(scene.pool)
    const text = await readFile(join(samples, '../operations.md'), 'utf8')
    const blocks = [...text.matchAll(/^```sql\n([\s\S]*?)^```/gm)].map(([, sql = '']) => sql)
    expect(blocks.length).toBeGreaterThan(1)
    for (const sql of blocks) await scene.pool.query(sql)
  })
})
