import { rabbitmq } from '@onceward/testing'
import { quorumQueuesOnDisk, rabbitmqctl } from '@onceward/testing/adapter'
import type { RunningBroker } from '../broker.ts'
import { freshName } from '../queue-under-test.ts'
import { type AmqpQueue, type AmqpQueueOptions, createAmqpQueue } from './queue.ts'

/** @param own - For every queue that does not say otherwise. */
export async function startRabbitmq(
  own: AmqpQueueOptions = {},
): Promise<RunningBroker<AmqpQueue, AmqpQueueOptions>> {
  const server = await rabbitmq()
  const ctl = rabbitmqctl(server)
  return {
    server,
    createQueue: async (options) => {
      const all = { ...own, ...options }
      const queue = await createAmqpQueue(server.connection.url, freshName(), all)
      if (all.type === 'quorum') await quorumQueuesOnDisk(server)
      return queue
    },
    disconnect: ctl && (async () => void (await ctl('close_all_connections', 'a test'))),
  }
}
