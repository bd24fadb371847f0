import { randomUUID } from 'node:crypto'
import { consumeNats } from '@onceward/nats'
import { nats } from '@onceward/testing'
import { type FailedStart, type FailedStartSubject, network } from '../../support/failed-start.ts'
import { withFailingStep } from '../../support/failing-step.ts'
import { CONSUMER, connectionTo, createConsumer, createStream } from './queue.ts'

export const failedStarts: readonly FailedStart[] = [{ title: 'NATS', start: onNats }]

const CALLS = { steps: ['request', 'flush'] }
const ACK_WAIT_MS = 33_000

async function onNats(): Promise<FailedStartSubject> {
  const server = await nats()
  const connection = await connectionTo(server.connection.url)
  const stream = `start-${randomUUID()}`
  await createStream(connection, { stream, subjects: [stream] })
  await createConsumer(connection, stream, ACK_WAIT_MS)
  const named = (name: string): Error => Object.assign(new Error(name), { name })
  return {
    errors: {
      network,
      late: () => named('TimeoutError'),
      unready: () => named('NoRespondersError'),
    },
    emitters: () => ({}),
    consume: ({ guard, signal, step }) =>
      consumeNats(
        withFailingStep(connection, CALLS, () => step),
        guard,
        { ...{ stream, consumer: CONSUMER, signal }, drainMs: 1_000 },
      ),
    stop: async () => {
      await connection.close()
      await server.stop()
    },
  }
}
