import { randomUUID } from 'node:crypto'
import type { EventEmitter } from 'node:events'
import { consumeAmqp } from '@onceward/amqp'
import { rabbitmq } from '@onceward/testing'
import { connect } from 'amqplib'
import { type FailedStart, type FailedStartSubject, network } from '../../support/failed-start.ts'
import { withFailingStep } from '../../support/failing-step.ts'

export const failedStarts: readonly FailedStart[] = [
  { title: 'RabbitMQ, over connections of onceward', start: () => onAmqp('ours') },
  { title: "RabbitMQ, over the user's connection", start: () => onAmqp('theirs') },
]

const CHANNEL = ['assertQueue', 'checkQueue', 'checkExchange', 'bindQueue', 'prefetch', 'consume']
const AMQP = {
  steps: ['connect', 'createChannel', 'createConfirmChannel', ...CHANNEL],
  factories: ['connect', 'createChannel', 'createConfirmChannel'],
}

/** @param whose - Whether onceward opens the connection, or the user has. */
async function onAmqp(whose: 'ours' | 'theirs'): Promise<FailedStartSubject> {
  const server = await rabbitmq()
  const { url } = server.connection
  const own = await connect(url)
  own.on('error', () => undefined)
  const channel = await own.createChannel()
  const queue = `start-${randomUUID()}`
  await channel.assertQueue(queue)
  await channel.close()
  return {
    errors: {
      network,
      missing: () => Object.assign(new Error('NOT_FOUND - no queue'), { code: 404 }),
      forbidden: () => Object.assign(new Error('ACCESS_REFUSED'), { code: 403 }),
    },
    emitters: () => ({ connection: own as unknown as EventEmitter }),
    consume: ({ guard, signal, step }) => {
      const opener = withFailingStep({ connect: () => connect(url) }, AMQP, () => step)
      const source =
        whose === 'ours' ? () => opener.connect() : withFailingStep(own, AMQP, () => step)
      return consumeAmqp(source, guard, { queue, signal, drainMs: 1_000 })
    },
    stop: async () => {
      await own.close()
      await server.stop()
    },
  }
}
