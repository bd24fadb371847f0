import {
  CreateQueueCommand,
  GetQueueAttributesCommand,
  SendMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs'
import { sqs } from '@onceward/testing'
import { openScenario, type SampleServer } from '../../support/samples.ts'
import { freshName } from '../queue-under-test.ts'

export async function startSamples(): Promise<SampleServer> {
  const server = await sqs()
  const { endpoint, region, credentials } = server.connection
  const client = new SQSClient(server.connection)
  const count = async (queueUrl: string): Promise<number> => {
    const { Attributes = {} } = await client.send(
      new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ['All'] }),
    )
    const { ApproximateNumberOfMessages, ApproximateNumberOfMessagesNotVisible } = Attributes
    return Number(ApproximateNumberOfMessages) + Number(ApproximateNumberOfMessagesNotVisible)
  }
  return {
    openQueue: async () => {
      const { QueueUrl } = await client.send(new CreateQueueCommand({ QueueName: freshName() }))
      // A client that is configured by its environment alone takes the host of the queue's url.
      const queueUrl = new URL(new URL(QueueUrl ?? '').pathname, endpoint).href
      const scenario = await openScenario({
        ...{ QUEUE_URL: queueUrl, AWS_ENDPOINT_URL_SQS: endpoint, AWS_REGION: region },
        AWS_ACCESS_KEY_ID: credentials.accessKeyId,
        AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
      })
      return {
        scenario,
        send: async (order) => {
          const input = { QueueUrl: queueUrl, MessageBody: JSON.stringify(order) }
          await client.send(new SendMessageCommand(input))
        },
        waiting: () => count(queueUrl),
        [Symbol.asyncDispose]: () => scenario[Symbol.asyncDispose](),
      }
    },
    stop: async () => {
      client.destroy()
      await server.stop()
    },
  }
}
