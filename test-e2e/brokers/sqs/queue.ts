import {
  CreateQueueCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SQSClient,
} from '@aws-sdk/client-sqs'
import type { SqsConnection } from '@onceward/testing'
import type { Source } from '../../support/workers/protocol.ts'
import { freshName, type OperatorAddress, type QueueUnderTest } from '../queue-under-test.ts'

export interface SqsQueueOptions {
  readonly visibilityMs?: number | undefined
  readonly longestHiddenMs?: number | undefined
}

export interface SqsSource extends Source {
  readonly kind: 'sqs'
  readonly connection: SqsConnection
  readonly queueUrl: string
  readonly deadUrl: string
  readonly visibilityMs: number
  /** No message is hidden longer than this, so that a test need not wait for what a killed worker deferred. */
  readonly longestHiddenMs?: number | undefined
}

/** An SQS queue and its dead-letter queue. */
export interface SqsQueue extends QueueUnderTest {
  readonly source: SqsSource
}

export async function createSqsQueue(
  connection: SqsConnection,
  { visibilityMs = 2_000, longestHiddenMs }: SqsQueueOptions = {},
): Promise<SqsQueue> {
  const client = new SQSClient({ ...connection, maxAttempts: 10 })
  const name = freshName()
  const create = async (QueueName: string): Promise<string> =>
    (await client.send(new CreateQueueCommand({ QueueName }))).QueueUrl ?? ''
  const queueUrl = await create(name)
  const deadUrl = await create(`${name}-dead`)
  return {
    operator: sqsAddress(connection, queueUrl),
    source: { kind: 'sqs', connection, queueUrl, deadUrl, visibilityMs, longestHiddenMs },
    send: async (orders) => {
      for (let from = 0; from < orders.length; from += 10) {
        const Entries = orders.slice(from, from + 10).map((order, index) => ({
          Id: String(index),
          MessageBody: JSON.stringify(order),
        }))
        await client.send(new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries }))
      }
    },
    depth: () => depthOf(client, queueUrl),
    deadLetters: () => receiveAll(client, deadUrl),
    close: async () => client.destroy(),
  }
}

/** How the command line names a queue of this server. */
export const sqsAddress = (
  { credentials, endpoint, region }: SqsConnection,
  queueUrl: string,
): OperatorAddress => ({
  address: queueUrl,
  env: {
    AWS_ENDPOINT_URL: endpoint,
    AWS_REGION: region,
    AWS_ACCESS_KEY_ID: credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
  },
})

async function depthOf(client: SQSClient, queueUrl: string): Promise<number> {
  const { Attributes = {} } = await client.send(
    new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ['All'] }),
  )
  const count = (name: keyof typeof Attributes): number => Number(Attributes[name] ?? 0)
  return (
    count('ApproximateNumberOfMessages') +
    count('ApproximateNumberOfMessagesNotVisible') +
    count('ApproximateNumberOfMessagesDelayed')
  )
}

type DeadLetters = Awaited<ReturnType<QueueUnderTest['deadLetters']>>

/** Receives every visible message and hides it for an hour, so that a second call finds only later ones. */
async function receiveAll(client: SQSClient, queueUrl: string): Promise<DeadLetters> {
  const found: DeadLetters[number][] = []
  while (true) {
    const { Messages = [] } = await client.send(
      new ReceiveMessageCommand({
        QueueUrl: queueUrl,
        MaxNumberOfMessages: 10,
        VisibilityTimeout: 3_600,
        MessageAttributeNames: ['All'],
      }),
    )
    if (Messages.length === 0) return found
    for (const { Body = '{}', MessageAttributes = {} } of Messages) {
      const reason = MessageAttributes['x-onceward-reason']?.StringValue
      found.push({ id: JSON.parse(Body).id, reason })
    }
  }
}
