import {
  CreateQueueCommand,
  DeleteQueueCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs'
import { consumeSqs } from '@onceward/sqs'
import { sqs } from '@onceward/testing'
import { freshName } from '../../fuzz/configurations/postgres-scene.ts'
import type { Order, Scene } from '../../fuzz/configurations/scene.ts'
import type { Servers } from '../../fuzz/configurations/servers.ts'
import { SharedDatabase } from '../../fuzz/configurations/shared-database.ts'
import type { SqsSettings } from './configurations-grid.ts'

export async function openSqs(servers: Servers, settings: SqsSettings): Promise<Scene> {
  const shared = await SharedDatabase.of(servers)
  const server = await servers.of('sqs', () => sqs({ native: true }))
  const client = new SQSClient({ ...server.connection, maxAttempts: 5 })
  const consumer = freshName()
  const { queueUrl, deadUrl } = await createQueues(client, consumer, settings)
  return {
    consumer,
    operator: shared.pool,
    schema: 'onceward',
    createGuard: (handle, logger) =>
      shared.createGuard({ consumer, transaction: settings.transaction, handle, logger }),
    consume: (guard) =>
      consumeSqs(client, guard, {
        queueUrl,
        deadLetter: { queueUrl: deadUrl },
        visibilityMs: settings.visibilityMs,
        longPollMs: settings.longPollMs,
        drainMs: 2_000,
      }),
    send: (orders) => sendAll(client, queueUrl, orders, settings),
    depth: () => depthOf(client, queueUrl),
    published: () => readAll(client, deadUrl),
    close: async () => {
      for (const url of [queueUrl, deadUrl]) {
        await client.send(new DeleteQueueCommand({ QueueUrl: url }))
      }
      client.destroy()
    },
  }
}

async function createQueues(
  client: SQSClient,
  name: string,
  { isFifo, queue, maxReceiveCount }: SqsSettings,
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
  const deadUrl = await create(`${name}-dead`, {})
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
  { isFifo }: SqsSettings,
): Promise<void> {
  for (const order of orders) {
    // A FIFO queue drops copies itself where they have the same id of deduplication.
    const fifo = isFifo ? { MessageGroupId: order.id, MessageDeduplicationId: freshName() } : {}
    await client.send(
      new SendMessageCommand({ QueueUrl, MessageBody: JSON.stringify(order), ...fifo }),
    )
  }
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

/** Hides what it has read, so that the next call finds only later ones. */
async function readAll(client: SQSClient, QueueUrl: string): Promise<readonly string[]> {
  const found: string[] = []
  for (;;) {
    const { Messages = [] } = await client.send(
      new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, VisibilityTimeout: 3_600 }),
    )
    if (Messages.length === 0) return found
    found.push(...Messages.map(({ Body = '{}' }) => String(JSON.parse(Body).id)))
  }
}
