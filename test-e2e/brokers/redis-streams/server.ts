import { redis } from '@onceward/testing'
import type { RunningBroker } from '../broker.ts'
import { createStreamQueue, type StreamQueue, type StreamQueueOptions } from './queue.ts'

/** @param own - For every queue that does not say otherwise. */
export async function startStreams(
  own: StreamQueueOptions = {},
): Promise<RunningBroker<StreamQueue, StreamQueueOptions>> {
  const server = await redis()
  const { url } = server.connection
  return { server, createQueue: (options) => createStreamQueue(url, { ...own, ...options }) }
}
