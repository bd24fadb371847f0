import { type ConfirmChannel, connect } from 'amqplib'
import type { Place } from './place.ts'

/** A new classic queue. Its delay queues are those of the consumer. */
export async function amqpPlace(url: string, name: string): Promise<Place<'amqp'>> {
  const connection = await connect(url)
  // A connection that breaks is reported by the next call.
  connection.on('error', () => undefined)
  const channel = await connection.createConfirmChannel()
  channel.on('error', () => undefined)
  const dead = `${name}.dead`
  await channel.assertQueue(name)
  await channel.assertQueue(dead)
  return {
    where: { queue: name, deadLetterQueue: dead },
    variables: { RABBITMQ_URL: url, QUEUE: name, DEAD_LETTER_QUEUE: dead },
    send: async (messages) => {
      for (const { body, headers } of messages) {
        const properties = { persistent: true, contentType: 'application/json', headers }
        channel.sendToQueue(name, Buffer.from(body), properties)
      }
      await channel.waitForConfirms()
    },
    waiting: () => countMessages(channel, name),
    dead: () => countMessages(channel, dead),
    [Symbol.asyncDispose]: async () => {
      await Promise.allSettled([name, dead].map((queue) => channel.deleteQueue(queue)))
      await connection.close().catch(() => undefined)
    },
  }
}

const countMessages = async (channel: ConfirmChannel, queue: string): Promise<number> =>
  (await channel.checkQueue(queue)).messageCount
