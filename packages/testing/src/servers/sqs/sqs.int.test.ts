// @module-tag nightly

import {
  ChangeMessageVisibilityCommand,
  CreateQueueCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs'
import { expect, test } from 'vitest'
import { ServerNotOursError, skipped } from '../run/server.ts'
import { sqs } from './sqs.ts'
import type { SqsConnection } from './sqs-connection.ts'

async function queue(client: SQSClient): Promise<string> {
  const created = await client.send(new CreateQueueCommand({ QueueName: 'orders' }))
  return created.QueueUrl as string
}

async function received(client: SQSClient, QueueUrl: string): Promise<string[]> {
  const { Messages = [] } = await client.send(
    new ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 2 }),
  )
  return Messages.map((message) => message.Body as string)
}

function clientOf(connection: SqsConnection): SQSClient {
  return new SQSClient({ ...connection, maxAttempts: 1 })
}

test('fauxqs in this process passes a message and refuses to be killed', async () => {
  await using server = await sqs()
  const client = clientOf(server.connection)
  const url = await queue(client)
  await client.send(new SendMessageCommand({ QueueUrl: url, MessageBody: 'charge' }))

  expect(await received(client, url)).toEqual(['charge'])
  if (!server.canKill) await expect(server.kill()).rejects.toThrow(ServerNotOursError)
})

test('a killed fauxqs process restarts on its port with its messages', async ({ skip }) => {
  await using server = await sqs({ process: true })
  skip(!server.canKill, 'the server belongs to the user')
  const client = clientOf(server.connection)
  const url = await queue(client)
  await client.send(new SendMessageCommand({ QueueUrl: url, MessageBody: 'survivor' }))

  await server.kill('SIGKILL')
  await expect(received(client, url)).rejects.toThrow(/ECONNREFUSED/)

  await server.restart()
  expect(await received(client, url)).toEqual(['survivor'])
})

// Red before: fauxqs answered with an error of its database and lost the message.
test('a fauxqs process delivers a message again that was given back', async () => {
  await using server = await sqs({ process: true })
  const client = clientOf(server.connection)
  const QueueUrl = await queue(client)
  await client.send(new SendMessageCommand({ QueueUrl, MessageBody: 'charge' }))
  const first = await client.send(new ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 2 }))
  const ReceiptHandle = first.Messages?.[0]?.ReceiptHandle
  const giveBack = { QueueUrl, ReceiptHandle, VisibilityTimeout: 0 }
  await client.send(new ChangeMessageVisibilityCommand(giveBack))
  expect(await received(client, QueueUrl)).toEqual(['charge'])
})

test.skipIf(skipped('sqs'))(
  'a killed ElasticMQ restarts on its port with its queues and messages',
  { tags: 'nightly' },
  async ({ skip }) => {
    await using server = await sqs({ engine: 'elasticmq' })
    skip(!server.canKill, 'the server belongs to the user')
    const client = clientOf(server.connection)
    const url = await queue(client)
    await client.send(new SendMessageCommand({ QueueUrl: url, MessageBody: 'survivor' }))

    await server.kill('SIGKILL')
    await expect(received(client, url)).rejects.toThrow(/ECONNREFUSED/)

    await server.restart()
    expect(await received(client, url)).toEqual(['survivor'])
  },
)
