import { sqs } from '@onceward/testing'
import type { RunningBroker } from '../broker.ts'
import { createSqsQueue, type SqsQueue, type SqsQueueOptions } from './queue.ts'

/** @param own - For every queue that does not say otherwise. */
export async function startSqs(
  own: SqsQueueOptions = {},
): Promise<RunningBroker<SqsQueue, SqsQueueOptions>> {
  const server = await sqs({ process: true, native: true })
  return {
    server,
    createQueue: (options) => createSqsQueue(server.connection, { ...own, ...options }),
  }
}
