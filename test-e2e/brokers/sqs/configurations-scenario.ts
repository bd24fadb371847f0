import {
  CreateQueueCommand,
  DeleteMessageCommand,
  DeleteQueueCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs'
import { consumeSqs } from '@onceward/sqs'
import { sqs } from '@onceward/testing'
import type { Pool } from 'pg'
import { freshName } from '../../fuzz/configurations/postgres-scenario.ts'
import type { Order, Scenario } from '../../fuzz/configurations/scenario.ts'
import type { Servers } from '../../fuzz/configurations/servers.ts'
import { SharedDatabase } from '../../fuzz/configurations/shared-database.ts'
import type { SqsSettings } from './configurations-grid.ts'

export async function openSqs(servers: Servers, settings: SqsSettings): Promise<Scenario> {
  const shared = await SharedDatabase.of(servers)
  const { engine } = settings
  const server = await servers.of(engine, () => sqs({ native: true, engine }))
  const client = new SQSClient({ ...server.connection, maxAttempts: 5 })
  const consumer = freshName()
  const { queueUrl, deadUrl } = await createQueues(client, consumer, settings)
  const missing = { queue: queueUrl, 'dead-letter queue': deadUrl }
  if (settings.missing !== undefined) {
    await client.send(new DeleteQueueCommand({ QueueUrl: missing[settings.missing] }))
  }
  return {
    consumer,
    operator: shared.pool,
    schema: 'onceward',
    createGuard: (handle, logger) =>
      shared.createGuard({
        ...{ consumer, transaction: settings.transaction, handle, logger },
        dedupWindowMs: settings.dedupWindowMs,
      }),
    consume: (guard) =>
      consumeSqs(client, guard, {
        queueUrl,
        deadLetter: deadLetterOf(settings, deadUrl),
        visibilityMs: settings.visibilityMs,
        longPollMs: settings.longPollMs,
        // Longer than a poll, because one that is given up may hide messages for a whole visibility timeout.
        drainMs: 5_000,
      }),
    send: (orders) => sendAll(client, queueUrl, orders, settings),
    depth: () => depthOf(client, queueUrl),
    published: () =>
      settings.deadLetter === 'table' ? readTable(shared.pool, consumer) : readAll(client, deadUrl),
    close: async () => {
      for (const url of [queueUrl, deadUrl]) {
        // It may be missing.
        await client.send(new DeleteQueueCommand({ QueueUrl: url })).catch(() => undefined)
      }
      client.destroy()
    },
  }
}

async function createQueues(
  client: SQSClient,
  name: string,
  { isFifo, queue, dead, maxReceiveCount }: SqsSettings,
): Promise<{ readonly queueUrl: string; readonly deadUrl: string }> {
  const suffix = isFifo ? '.fifo' : ''
  const type = isFifo ? { FifoQueue: 'true' } : {}
  const create = async (
    base: string,
    Attributes: Readonly<Record<string, string>>,
  ): Promise<string> => {
    const command = new CreateQueueCommand({
      QueueName: `${base}${suffix}`,
      Attributes: { ...type, ...Attributes },
    })
    return (await client.send(command)).QueueUrl ?? ''
  }
  const deadUrl = await create(`${name}-dead`, dead)
  const { Attributes } = await client.send(
    new GetQueueAttributesCommand({ QueueUrl: deadUrl, AttributeNames: ['QueueArn'] }),
  )
  const policy = { deadLetterTargetArn: Attributes?.['QueueArn'], maxReceiveCount }
  const redrive = maxReceiveCount === undefined ? {} : { RedrivePolicy: JSON.stringify(policy) }
  return { queueUrl: await create(name, { ...queue, ...redrive }), deadUrl }
}

async function sendAll(
  client: SQSClient,
  QueueUrl: string,
  orders: readonly Order[],
  { isFifo, hasOneGroup, queue }: SqsSettings,
): Promise<void> {
  for (const order of orders) {
    // A FIFO queue drops copies itself where they have the same id of deduplication.
    const isById = queue['ContentBasedDeduplication'] === undefined
    const fifo = {
      MessageGroupId: hasOneGroup ? 'all' : order.id,
      ...(isById ? { MessageDeduplicationId: freshName() } : {}),
    }
    await client.send(
      new SendMessageCommand({
        QueueUrl,
        MessageBody: JSON.stringify(order),
        ...(isFifo ? fifo : {}),
      }),
    )
  }
}

function deadLetterOf(
  { deadLetter }: SqsSettings,
  queueUrl: string,
): { queueUrl: string } | 'redrive' | undefined {
  if (deadLetter === 'queue') return { queueUrl }
  return deadLetter === 'redrive' ? deadLetter : undefined
}

/** Ids of the dead events that nobody has replayed yet. */
async function readTable(pool: Pool, consumer: string): Promise<readonly string[]> {
  const { rows } = await pool.query<{ key: string }>(
    `select f.key from onceward.failed_events f join onceward.processed_events p using (event_id)
    join onceward.consumers c on c.id = p.consumer_id where c.name = $1 and p.state = 'x'`,
    [consumer],
  )
  return rows.map(({ key }) => key)
}

async function depthOf(client: SQSClient, QueueUrl: string): Promise<number> {
  const { Attributes = {} } = await client.send(
    new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] }),
  )
  const count = (name: keyof typeof Attributes): number => Number(Attributes[name] ?? 0)
  return (
    count('ApproximateNumberOfMessages') +
    count('ApproximateNumberOfMessagesNotVisible') +
    count('ApproximateNumberOfMessagesDelayed')
  )
}

/** Deletes what it has read, because in a FIFO queue a hidden message holds back its group. */
async function readAll(client: SQSClient, QueueUrl: string): Promise<readonly string[]> {
  const found: string[] = []
  for (;;) {
    const { Messages = [] } = await client.send(
      new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, VisibilityTimeout: 3_600 }),
    )
    if (Messages.length === 0) return found
    for (const { Body = '{}', ReceiptHandle } of Messages) {
      found.push(String(JSON.parse(Body).id))
      await client.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }))
    }
  }
}
