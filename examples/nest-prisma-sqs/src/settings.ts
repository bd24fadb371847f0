import { CreateQueueCommand, SQSClient } from '@aws-sdk/client-sqs'

/** The defaults are the servers of compose.yaml. */
export const databaseUrl: string =
  process.env.DATABASE_URL ?? 'postgres://postgres:onceward@127.0.0.1:15432/postgres'

/** The queue of compose.yaml. On AWS write `new SQSClient()`: the environment names region and credentials. */
export const sqs: SQSClient = new SQSClient({
  endpoint: process.env.SQS_ENDPOINT ?? 'http://127.0.0.1:19324',
  region: 'us-east-1',
  credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
  // Local servers put host names into queue URLs that do not resolve.
  useQueueUrlAsEndpoint: false,
})

const queue = process.env.QUEUE ?? 'orders'

/** Both queues are created if they are missing. */
export const queueUrl = (): Promise<string> => created(queue)
export const receiptsUrl = (): Promise<string> => created(`${queue}-receipts`)

async function created(name: string): Promise<string> {
  const { QueueUrl = '' } = await sqs.send(new CreateQueueCommand({ QueueName: name }))
  return QueueUrl
}
