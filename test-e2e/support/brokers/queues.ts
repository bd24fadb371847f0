import {
  CreateQueueCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SQSClient,
} from '@aws-sdk/client-sqs'
import type { SqsConnection } from '@onceward/testing'
import type { QueueSource } from '../workers/protocol.ts'
import type { Place } from './queue-under-test.ts'

export interface QueuesOptions {
  readonly visibilityMs?: number | undefined
  readonly longestHiddenMs?: number | undefined
}

/** A queue of SQS and its dead-letter queue. */
export interface Queues extends Place {
  readonly source: QueueSource
}

export async function createQueues(
  connection: SqsConnection,
  name: string,
  { visibilityMs = 2_000, longestHiddenMs }: QueuesOptions = {},
): Promise<Queues> {
  const client = new SQSClient({ ...connection, maxAttempts: 10 })
  const create = async (QueueName: string): Promise<string> =>
    (await client.send(new CreateQueueCommand({ QueueName }))).QueueUrl ?? ''
  const queueUrl = await create(name)
  const deadUrl = await create(`${name}-dead`)
  return {
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

type DeadLetters = Awaited<ReturnType<Place['deadLetters']>>

/** Everything visible; hidden for long afterwards, so that a second call finds only what came since. */
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
