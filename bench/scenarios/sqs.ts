import {
  CreateQueueCommand,
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SQSClient,
} from '@aws-sdk/client-sqs'
import { migrate } from '@onceward/postgres'
import { consumeSqs } from '@onceward/sqs'
import { postgres, type SqsConnection } from '@onceward/testing/servers'
import { Pool } from 'pg'
import {
  createEffects,
  DURABLE,
  decode,
  deliveryOf,
  inTransaction,
  type Order,
  toDelivery,
  write,
} from '../load/effects.ts'
import { startSqsProcess } from '../load/proxy-process.ts'
import { processed, roundGuard, warm } from '../load/round-guard.ts'
import { processorMeter } from '../runner/processor-time.ts'
import type { Benchmark } from '../runner/report.ts'
import {
  alternateMetered,
  CONCURRENCY,
  type Contestant,
  inLanes,
  median,
  processorTimes,
  ratioOf,
} from '../runner/rounds.ts'
import type { Scale } from '../runner/scale.ts'

/** The most messages that SQS allows in one receive and one delete. */
const MOST = 10

/** Concurrent receives of the bare loop: 20 messages in flight for 16 connections. */
const POLLS = 2

/** A queue that is consumed by consumeSqs and by a hand-written loop. */
export async function sqsBenchmark(scale: Scale): Promise<Benchmark> {
  await using server = await postgres({ settings: DURABLE })
  await using queues = await startSqsProcess()
  await using testbed = await openTestbed(await server.createDatabase(), queues.connection)
  await migrate(testbed.pool)
  await createEffects(testbed.pool)
  const contestants = [bareLoop(testbed), guardedLoop(testbed), guarded(testbed)]
  const size = { ...scale, events: scale.events / 2 }
  const meter = await processorMeter(testbed.pool)
  const { rates, costs } = await alternateMetered(contestants, size, () => meter)
  return {
    name: 'sqs',
    unit: 'events/s',
    values: {
      ...Object.fromEntries([...rates].map(([name, round]) => [name, median(round)])),
      ...processorTimes(costs),
    },
    ratios: {
      sqs: ratioOf(rates, 'consumeSqs', 'bare-loop'),
      'sqs-of-own-loop': ratioOf(rates, 'consumeSqs', 'guard-in-own-loop'),
    },
    goals: [
      { name: 'sqs', least: 0.75 },
      { name: 'sqs-of-own-loop', least: 0.9 },
    ],
  }
}

interface Testbed extends AsyncDisposable {
  readonly pool: Pool
  readonly databaseUrl: string
  readonly client: SQSClient
}

async function openTestbed(databaseUrl: string, connection: SqsConnection): Promise<Testbed> {
  const pool = new Pool({ connectionString: databaseUrl, max: CONCURRENCY })
  pool.on('error', () => undefined)
  const client = new SQSClient(connection)
  return {
    pool,
    databaseUrl,
    client,
    [Symbol.asyncDispose]: async () => {
      client.destroy()
      await pool.end()
    },
  }
}

interface Handling {
  handle(message: Message): Promise<void>
  close?(): Promise<void>
}

/** A loop that deletes what was handled. */
function byHand(name: string, { client }: Testbed, prepare: () => Promise<Handling>): Contestant {
  return {
    name,
    prepare: async (events) => {
      const queueUrl = await filledQueue(client, events)
      const { handle, close } = await prepare()
      let left = events
      const poll = async (): Promise<void> => {
        while (left > 0) {
          const messages = await receive(client, queueUrl)
          await Promise.all(messages.map(handle))
          if (messages.length > 0) await deleteAll(client, queueUrl, messages)
          left -= messages.length
        }
      }
      return async () => {
        const startedAt = performance.now()
        await Promise.all(Array.from({ length: POLLS }, poll))
        const tookMs = performance.now() - startedAt
        await close?.()
        return tookMs
      }
    },
  }
}

const bareLoop = (testbed: Testbed): Contestant =>
  byHand('bare-loop', testbed, async () => {
    const { pool } = testbed
    await warm((delivery) => inTransaction(pool, (tx) => write(tx, decode(delivery))))
    return {
      handle: async ({ Body = '' }) => {
        const order: Order = JSON.parse(Body)
        await inTransaction(pool, (tx) => write(tx, order))
      },
    }
  })

/** The guard without the adapter. */
const guardedLoop = (testbed: Testbed): Contestant =>
  byHand('guard-in-own-loop', testbed, async () => {
    const guard = await roundGuard({ connectionString: testbed.databaseUrl })
    return {
      handle: ({ Body = '', MessageAttributes = {} }) => {
        const key = MessageAttributes['idempotency-key']?.StringValue ?? ''
        return processed(guard, deliveryOf(Buffer.from(Body), key))
      },
      close: () => guard.close(),
    }
  })

function guarded({ databaseUrl, client }: Testbed): Contestant {
  return {
    name: 'consumeSqs',
    prepare: async (events) => {
      const queueUrl = await filledQueue(client, events)
      const deletes = countDeletes(client, events)
      const guard = await roundGuard({ connectionString: databaseUrl })
      return async () => {
        const startedAt = performance.now()
        // The drain waits for a poll of an empty queue to end.
        const consumption = await consumeSqs(deletes.client, guard, { queueUrl, longPollMs: 1_000 })
        await deletes.done
        const tookMs = performance.now() - startedAt
        await consumption.drain()
        await guard.close()
        return tookMs
      }
    },
  }
}

async function receive(client: SQSClient, queueUrl: string): Promise<readonly Message[]> {
  const { Messages = [] } = await client.send(
    new ReceiveMessageCommand({ QueueUrl: queueUrl, MaxNumberOfMessages: MOST }),
  )
  return Messages
}

async function deleteAll(
  client: SQSClient,
  queueUrl: string,
  messages: readonly Message[],
): Promise<void> {
  const Entries = messages.map(({ ReceiptHandle }, index) => ({ Id: String(index), ReceiptHandle }))
  const { Failed = [] } = await client.send(
    new DeleteMessageBatchCommand({ QueueUrl: queueUrl, Entries }),
  )
  if (Failed.length > 0) throw new Error(`SQS refused ${Failed.length} deletes`)
}

/** The same client, with a promise that resolves when that many messages are deleted. */
function countDeletes(
  client: SQSClient,
  events: number,
): { readonly client: Pick<SQSClient, 'send'>; readonly done: Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>()
  let left = events
  const counting = new Proxy(client, {
    get: (target, name) => {
      if (name !== 'send') return Reflect.get(target, name, target)
      return async (command: Parameters<SQSClient['send']>[0], ...rest: []) => {
        const answer = await target.send(command, ...rest)
        if (command instanceof DeleteMessageBatchCommand && 'Successful' in answer) {
          left -= answer.Successful?.length ?? 0
          if (left === 0) resolve()
        }
        return answer
      }
    },
  })
  return { client: counting, done: promise }
}

let queues = 0

async function filledQueue(client: SQSClient, events: number): Promise<string> {
  const dead = await client.send(new CreateQueueCommand({ QueueName: 'bench-dead' }))
  const { Attributes } = await client.send(
    new GetQueueAttributesCommand({ QueueUrl: dead.QueueUrl, AttributeNames: ['QueueArn'] }),
  )
  const redrive = { deadLetterTargetArn: Attributes?.QueueArn, maxReceiveCount: 100 }
  queues += 1
  const { QueueUrl = '' } = await client.send(
    new CreateQueueCommand({
      QueueName: `bench-${queues}`,
      Attributes: { VisibilityTimeout: '60', RedrivePolicy: JSON.stringify(redrive) },
    }),
  )
  const batches = Array.from({ length: events / MOST }, () =>
    Array.from({ length: MOST }, toDelivery),
  )
  await inLanes(batches, 4, async (batch) => {
    const Entries = batch.map(({ body, headers }, index) => ({
      Id: String(index),
      MessageBody: Buffer.from(body).toString(),
      MessageAttributes: {
        'idempotency-key': { DataType: 'String', StringValue: headers['idempotency-key'] },
      },
    }))
    await client.send(new SendMessageBatchCommand({ QueueUrl, Entries }))
  })
  return QueueUrl
}
