import { randomUUID } from 'node:crypto'
import { CreateQueueCommand, SQSClient } from '@aws-sdk/client-sqs'
import { consumeSqs } from '@onceward/sqs'
import { sqs } from '@onceward/testing'
import { type FailedStart, type FailedStartSubject, network } from '../../support/failed-start.ts'
import { withFailingStep } from '../../support/failing-step.ts'

export const failedStarts: readonly FailedStart[] = [{ title: 'SQS', start: onSqs }]

async function onSqs(): Promise<FailedStartSubject> {
  const server = await sqs()
  const client = new SQSClient({ ...server.connection, maxAttempts: 1 })
  const create = new CreateQueueCommand({ QueueName: `start-${randomUUID()}` })
  const queueUrl = (await client.send(create)).QueueUrl as string
  return {
    errors: {
      network,
      forbidden: () => Object.assign(new Error('no'), { name: 'AccessDeniedException' }),
      missing: () => Object.assign(new Error('no'), { name: 'QueueDoesNotExist' }),
    },
    emitters: () => ({}),
    consume: ({ guard, signal, step }) =>
      consumeSqs(
        withFailingStep(client, { steps: ['send'] }, () => step),
        guard,
        {
          ...{ queueUrl, signal, drainMs: 1_000, longPollMs: 1_000 },
        },
      ),
    stop: async () => {
      client.destroy()
      await server.stop()
    },
  }
}
