import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import {
  CreateQueueCommand,
  GetQueueAttributesCommand,
  SendMessageCommand,
  SQSClient,
  type SQSClientConfig,
} from '@aws-sdk/client-sqs'
import { migrate } from '@onceward/postgres'
import { database, type Server, sqs, until } from '@onceward/testing'
import pg from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import type { WorkerSettings } from './fixtures/nest-worker.ts'

const WORKER = fileURLToPath(new URL('./fixtures/nest-worker.ts', import.meta.url))

let server: Server<SQSClientConfig>
let client: SQSClient

beforeAll(async () => {
  server = await sqs()
  client = new SQSClient(server.connection)
})
afterAll(async () => {
  client.destroy()
  await server.stop()
})

interface Worker {
  readonly process: ChildProcess
  readonly output: () => string
}

class Service {
  readonly url: string
  readonly pool: pg.Pool
  readonly queueUrl: string

  constructor(url: string, pool: pg.Pool, queueUrl: string) {
    this.url = url
    this.pool = pool
    this.queueUrl = queueUrl
  }

  static async make(name: string): Promise<Service> {
    const { url } = await database()
    const pool = new pg.Pool({ connectionString: url, max: 2 })
    onTestFinished(() => pool.end())
    await migrate(pool)
    await pool.query('create table charges (order_id text)')
    const QueueName = `nest-${process.pid}-${Date.now()}-${name}`
    const { QueueUrl = '' } = await client.send(new CreateQueueCommand({ QueueName }))
    return new Service(url, pool, QueueUrl)
  }

  start(given: Partial<WorkerSettings> & Pick<WorkerSettings, 'by'>): Worker {
    const settings: WorkerSettings = {
      ...{ url: this.url, sqs: server.connection, queueUrl: this.queueUrl },
      ...{ order: 'database first', waits: false, ...given },
    }
    const args = ['--conditions=@onceward/source', WORKER, JSON.stringify(settings)]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    let text = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      })
    }
    onTestFinished(() => void child.kill('SIGKILL'))
    return { process: child, output: () => text }
  }

  async send(orderId: string): Promise<void> {
    const MessageBody = JSON.stringify({ pattern: 'order.placed', data: { orderId } })
    const MessageAttributes = { 'idempotency-key': { DataType: 'String', StringValue: orderId } }
    const { queueUrl: QueueUrl } = this
    await client.send(new SendMessageCommand({ QueueUrl, MessageBody, MessageAttributes }))
  }

  async isEmpty(): Promise<boolean> {
    const { Attributes } = await client.send(
      new GetQueueAttributesCommand({ QueueUrl: this.queueUrl, AttributeNames: ['All'] }),
    )
    const left = ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible'] as const
    return left.every((name) => Attributes?.[name] === '0')
  }

  /** How often each order was charged, and how many receipts were sent. */
  async counts(): Promise<{ readonly charges: readonly number[]; readonly receipts: number }> {
    const charges = await this.pool.query(
      'select count(*)::int from charges group by order_id order by order_id',
    )
    const sent = await this.pool.query('select count(*)::int from onceward.outbox_messages')
    return { charges: charges.rows.map(({ count }) => count), receipts: sent.rows[0].count }
  }
}

async function untilTold({ output, process: worker }: Worker, text: string): Promise<void> {
  await until(
    () => {
      // Its output says why it ended.
      expect(worker.exitCode, output()).toBeNull()
      return output().includes(text)
    },
    { what: `\`${text}\` of the worker`, deadlineMs: 60_000 },
  )
}

const BOTH = ['@Consume', 'OncewardStrategy'] as const

test.each(BOTH)(
  'trap N3: at SIGTERM a running handler of %s ends before the module of the database does',
  async (by) => {
    const service = await Service.make('sigterm')
    await service.send('o-1')
    const worker = service.start({ by, waits: true })
    await untilTold(worker, 'running o-1')
    const ended = once(worker.process, 'exit')
    worker.process.kill('SIGTERM')
    expect(await ended, worker.output()).toEqual([null, 'SIGTERM'])
    expect(await service.counts(), worker.output()).toEqual({ charges: [1], receipts: 1 })
    await until(() => service.isEmpty())
  },
)

// Its database ends before the handler does, so the handler fails. The event runs once nonetheless, when it comes again.
test('in the other order the handler loses its database, and its event comes again', async () => {
  const service = await Service.make('order')
  await service.send('o-1')
  const worker = service.start({ by: '@Consume', order: 'database last', waits: true })
  await untilTold(worker, 'running o-1')
  expect(worker.output()).toContain('at shutdown these providers end before the handlers')
  worker.process.kill('SIGTERM')
  await until(() => worker.output().includes('handler failed'))
  expect(await service.counts()).toEqual({ charges: [], receipts: 0 })
})

test.each(BOTH)(
  'workers of %s that are killed in the middle of handlers charge each order once',
  { tags: ['nightly'] },
  async (by) => {
    const service = await Service.make('kills')
    const orders = Array.from({ length: 60 }, (_, at) => `o-${at}`)
    await Promise.all(orders.map((orderId) => service.send(orderId)))
    for (let kills = 0; kills < 5; kills++) {
      const worker = service.start({ by })
      await untilTold(worker, 'running')
      worker.process.kill('SIGKILL')
      await once(worker.process, 'exit')
    }
    service.start({ by })
    await until(async () => (await service.counts()).receipts === orders.length)
    await until(() => service.isEmpty())
    expect(await service.counts()).toEqual({
      charges: orders.map(() => 1),
      receipts: orders.length,
    })
  },
)
