import { rabbitmq } from '@onceward/testing'
import { type Erlang, erlang, quorumQueuesOnDisk, rabbitmqctl } from '@onceward/testing/adapter'
import type { RunningBroker } from '../broker.ts'
import { freshName } from '../queue-under-test.ts'
import { type AmqpQueue, type AmqpQueueOptions, createAmqpQueue } from './queue.ts'

/** @param own - For every queue that does not say otherwise. */
export async function startRabbitmq(
  own: AmqpQueueOptions = {},
): Promise<RunningBroker<AmqpQueue, AmqpQueueOptions>> {
  const server = await rabbitmq()
  const ctl = rabbitmqctl(server)
  const evaluate = erlang(server)
  return {
    server,
    createQueue: async (options) => {
      const all = { ...own, ...options }
      const queue = await createAmqpQueue(server.connection.url, freshName(), all)
      if (all.type === 'quorum') {
        await quorumQueuesOnDisk(server)
        // It tells what is in flight seconds late.
        return queue
      }
      return { ...queue, inFlight: evaluate && (() => inFlight(evaluate, queue.source.queue)) }
    },
    disconnect: ctl && (async () => void (await ctl('close_all_connections', 'a test'))),
  }
}

/** Messages whose acknowledgement has not arrived. */
async function inFlight(evaluate: Erlang, queue: string): Promise<number> {
  const name = `rabbit_misc:r(<<"/">>, queue, <<"${queue}">>)`
  const count = await evaluate(
    `{ok, Q} = rabbit_amqqueue:lookup(${name}), [{_, N}] = rabbit_amqqueue:info(Q, [messages_unacknowledged]), N.`,
  )
  return Number(count)
}
