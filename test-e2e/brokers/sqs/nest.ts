import { SQSClient } from '@aws-sdk/client-sqs'
import { type Places, sqsBroker } from '@onceward/nestjs'
import type { NestConsumer } from '../broker.ts'
import type { SqsSource } from './queue.ts'

export async function nestConsumerOf(source: SqsSource): Promise<NestConsumer> {
  const { connection, deadUrl, queueUrl } = source
  const client = new SQSClient(connection)
  const place: Places['sqs'] = { queueUrl, deadLetter: { queueUrl: deadUrl }, longPollMs: 1_000 }
  return { broker: sqsBroker(client), place, close: async () => client.destroy() }
}
