import {
  DeleteMessageCommand,
  type Message,
  ReceiveMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs'
import { consumeSqs } from '@onceward/sqs'
import type { SqsConnection } from '@onceward/testing'
import { openPlace } from '@onceward/testing/prove'
import { sqs } from '@onceward/testing/servers'
import { type DemoBroker, type DemoQueue, demoQueue } from '../../demo/demo-broker.ts'
import { ACK_LATENCY_MS } from '../../demo/network.ts'
import { tell } from '../../demo/signals.ts'

interface Address {
  readonly connection: SqsConnection
  readonly queueUrl: string
}

export const sqsDemo: DemoBroker = {
  title: 'SQS',
  start: async () => {
    const server = await sqs()
    return {
      openQueue: (name) => openQueue(server.connection, name),
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    }
  },
  guarded: async ({ address, billing, signal }) => {
    const { connection, queueUrl } = addressOf(address)
    const client = overNetwork(connection)
    // A drain lets the long poll end.
    const options = { queueUrl, signal, longPollMs: 1_000 }
    const { stopped } = await consumeSqs(client, billing, options)
    await stopped
  },
  unguarded: async ({ address, charge, signal }) => {
    const { connection, queueUrl: QueueUrl } = addressOf(address)
    const client = overNetwork(connection)
    const handle = async ({ Body = '', ReceiptHandle }: Message): Promise<void> => {
      await charge(JSON.parse(Body))
      await client.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }))
    }
    while (!signal.aborted) {
      const { Messages = [] } = await client.send(
        new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 8, WaitTimeSeconds: 1 }),
      )
      await Promise.all(Messages.map(handle))
    }
  },
}

const addressOf = (address: string): Address => JSON.parse(address)

/** The client of both workers: an ordinary one over a slow network that reports deliveries to the parent. */
function overNetwork(connection: SqsConnection): SQSClient {
  const client = new SQSClient(connection)
  client.middlewareStack.add(
    (next, { commandName = '' }) =>
      async (args) => {
        if (commandName.startsWith('DeleteMessage')) {
          tell({ kind: 'before-ack' })
          await new Promise((resolve) => setTimeout(resolve, ACK_LATENCY_MS))
        }
        const answer = await next(args)
        if ('Messages' in answer.output) {
          tell({ kind: 'received', messages: answer.output.Messages?.length ?? 0 })
        }
        return answer
      },
    { step: 'initialize' },
  )
  return client
}

async function openQueue(connection: SqsConnection, name: string): Promise<DemoQueue> {
  const place = await openPlace({ broker: 'sqs', config: connection }, name)
  const { queueUrl } = place.where
  return demoQueue(place, JSON.stringify({ connection, queueUrl } satisfies Address))
}
