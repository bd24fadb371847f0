import {
  CreateQueueCommand,
  DeleteQueueCommand,
  GetQueueAttributesCommand,
  SendMessageBatchCommand,
  SQSClient,
  type SQSClientConfig,
} from '@aws-sdk/client-sqs'
import type { Place, PlaceMessage } from './place.ts'

/** The visibility timeout. Short, so that messages of a dead process come back soon. */
const VISIBILITY_S = '2'
const MOST_IN_BATCH = 10

/** A new queue. A message that was received a hundred times is dead-lettered by the broker. */
export async function sqsPlace(config: SQSClientConfig, name: string): Promise<Place<'sqs'>> {
  const client = new SQSClient({ maxAttempts: 10, ...config })
  const deadUrl = await createQueue(client, `${name}-dead`, {})
  const { QueueArn: deadLetterTargetArn = '' } = await attributesOf(client, deadUrl)
  const queueUrl = await createQueue(client, name, {
    VisibilityTimeout: VISIBILITY_S,
    RedrivePolicy: JSON.stringify({ deadLetterTargetArn, maxReceiveCount: 100 }),
  })
  return {
    where: { queueUrl, deadLetterQueueUrl: deadUrl },
    variables: { QUEUE_URL: queueUrl, DEAD_LETTER_QUEUE_URL: deadUrl },
    send: async (messages) => {
      for (let from = 0; from < messages.length; from += MOST_IN_BATCH) {
        await sendBatch(client, queueUrl, messages.slice(from, from + MOST_IN_BATCH))
      }
    },
    waiting: () => countMessages(client, queueUrl),
    dead: () => countMessages(client, deadUrl),
    [Symbol.asyncDispose]: async () => {
      const removing = [queueUrl, deadUrl].map((QueueUrl) =>
        client.send(new DeleteQueueCommand({ QueueUrl })),
      )
      await Promise.allSettled(removing)
      client.destroy()
    },
  }
}

async function createQueue(
  client: SQSClient,
  QueueName: string,
  Attributes: Record<string, string>,
): Promise<string> {
  const { QueueUrl = '' } = await client.send(new CreateQueueCommand({ QueueName, Attributes }))
  const { endpoint } = client.config
  // An emulator calls itself by another name, about which each client warns.
  if (endpoint === undefined || !client.config.isCustomEndpoint) return QueueUrl
  const { hostname, port, protocol } = await endpoint()
  return Object.assign(new URL(QueueUrl), { hostname, port: String(port ?? ''), protocol }).href
}

async function attributesOf(
  client: SQSClient,
  QueueUrl: string,
): Promise<Partial<Record<string, string>>> {
  const command = new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] })
  return (await client.send(command)).Attributes ?? {}
}

async function sendBatch(
  client: SQSClient,
  QueueUrl: string,
  messages: readonly PlaceMessage[],
): Promise<void> {
  const Entries = messages.map(({ body, headers }, index) => ({
    Id: String(index),
    MessageBody: body,
    MessageAttributes: Object.fromEntries(
      Object.entries(headers).map(([name, StringValue]) => [
        name,
        { DataType: 'String', StringValue },
      ]),
    ),
  }))
  const { Failed = [] } = await client.send(new SendMessageBatchCommand({ QueueUrl, Entries }))
  if (Failed.length > 0) {
    throw new Error(
      `SQS refused ${Failed.length} messages: ${Failed[0]?.Message ?? Failed[0]?.Code}`,
    )
  }
}

/** Messages that are not deleted yet, hidden ones included. */
async function countMessages(client: SQSClient, queueUrl: string): Promise<number> {
  const found = await attributesOf(client, queueUrl)
  return (
    Number(found['ApproximateNumberOfMessages'] ?? 0) +
    Number(found['ApproximateNumberOfMessagesNotVisible'] ?? 0) +
    Number(found['ApproximateNumberOfMessagesDelayed'] ?? 0)
  )
}
