import { jetstream } from '@nats-io/jetstream'
import { nats } from '@onceward/testing'
import { openScenario, type SampleServer } from '../../support/samples.ts'
import { freshName } from '../queue-under-test.ts'
import { connectionTo, createConsumer, createStream, unsettled } from './queue.ts'

const ACK_WAIT_MS = 33_000

export async function startSamples(): Promise<SampleServer> {
  const server = await nats()
  const { url } = server.connection
  const connection = await connectionTo(url)
  await createStream(connection, { stream: 'dead', subjects: ['dead.>'] })
  return {
    openQueue: async () => {
      const stream = freshName()
      const subject = `${stream}.placed`
      await createStream(connection, { stream, subjects: [subject] })
      await createConsumer(connection, stream, ACK_WAIT_MS)
      const scenario = await openScenario({ NATS_URL: url, STREAM: stream })
      return {
        scenario,
        send: async (order) => {
          await jetstream(connection).publish(subject, JSON.stringify(order))
        },
        waiting: () => unsettled(connection, stream),
        [Symbol.asyncDispose]: () => scenario[Symbol.asyncDispose](),
      }
    },
    stop: async () => {
      await connection.close()
      await server.stop()
    },
  }
}
