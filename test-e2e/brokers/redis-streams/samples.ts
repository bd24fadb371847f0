import { redis } from '@onceward/testing'
import { Redis } from 'ioredis'
import { openScenario, type SampleServer } from '../../support/samples.ts'
import { freshName } from '../queue-under-test.ts'

export async function startSamples(): Promise<SampleServer> {
  const server = await redis()
  const { url } = server.connection
  const client = new Redis(url)
  return {
    openQueue: async () => {
      const stream = freshName()
      const scenario = await openScenario({ REDIS_URL: url, STREAM: stream })
      return {
        scenario,
        send: async (order) => {
          await client.xadd(stream, '*', 'payload', JSON.stringify(order))
        },
        waiting: () => client.xlen(stream),
        [Symbol.asyncDispose]: () => scenario[Symbol.asyncDispose](),
      }
    },
    stop: async () => {
      client.disconnect()
      await server.stop()
    },
  }
}
