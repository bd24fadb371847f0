import { SQSClient } from '@aws-sdk/client-sqs'
import type { Destination } from '@onceward/core'
import { sqsDestination } from '@onceward/sqs'
import type { SqsSource } from './queue.ts'

export async function destinationOf({ connection, queueUrl }: SqsSource): Promise<Destination> {
  const client = new SQSClient(connection)
  const close = async (): Promise<void> => client.destroy()
  return { ...sqsDestination(client, { queueUrl }), close }
}
