import { rabbitmq } from '@onceward/testing'
import { connect } from 'amqplib'
import {
  openScenario,
  runToEnd,
  type SampleQueue,
  type SampleServer,
} from '../../support/samples.ts'

/** As the samples call their queue. */
const QUEUE = 'orders'

export async function startSamples(): Promise<SampleServer> {
  const server = await rabbitmq()
  return { openQueue: () => openQueue(server.connection.url), stop: () => server.stop() }
}

async function openQueue(url: string): Promise<SampleQueue> {
  const scenario = await openScenario({ RABBITMQ_URL: url })
  await runToEnd('amqp-topology', scenario)
  const connection = await connect(url)
  const channel = await connection.createConfirmChannel()
  // The sample before may have ended with the second copy in flight.
  await channel.purgeQueue(QUEUE)
  return {
    scenario,
    send: async (order) => {
      channel.sendToQueue(QUEUE, Buffer.from(JSON.stringify(order)), { persistent: true })
      await channel.waitForConfirms()
    },
    waiting: async () => (await channel.checkQueue(QUEUE)).messageCount,
    [Symbol.asyncDispose]: async () => {
      await connection.close()
      await scenario[Symbol.asyncDispose]()
    },
  }
}
