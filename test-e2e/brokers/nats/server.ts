import { nats } from '@onceward/testing'
import type { RunningBroker } from '../broker.ts'
import { createNatsQueue, type NatsQueue, type NatsQueueOptions } from './queue.ts'

/** @param own - For every queue that does not say otherwise. */
export async function startNats(
  own: NatsQueueOptions = {},
): Promise<RunningBroker<NatsQueue, NatsQueueOptions>> {
  const server = await nats()
  const { url } = server.connection
  return {
    server,
    createQueue: ({ takesCopies, ...options } = {}) => {
      const window = takesCopies === true ? { duplicateWindowMs: 100 } : {}
      return createNatsQueue(url, { ...own, ...window, ...options })
    },
  }
}
