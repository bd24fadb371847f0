import type { DeliverySource } from '@onceward/core'
import type { QueueSender } from '@onceward/postgres'
import { EXIT } from '../exit-codes.ts'
import { Failure } from '../failure.ts'
import type { NamedBroker } from './broker-address.ts'
import { type OpenBroker, openBroker } from './brokers.ts'

/** Opens the brokers for `work`, and closes them however it ends. */
export async function withSender<Result>(
  named: readonly NamedBroker[],
  work: (sender: QueueSender) => Promise<Result>,
): Promise<Result> {
  const brokers: OpenBroker[] = []
  try {
    for (const each of named) brokers.push(await openBroker(each))
    return await work(senderOf(brokers))
  } finally {
    for (const each of brokers) await each[Symbol.asyncDispose]()
  }
}

/** Sends each message by the first broker that owns its queue. */
function senderOf(brokers: readonly OpenBroker[]): QueueSender {
  const ownerOf = (source: DeliverySource): OpenBroker | undefined =>
    brokers.find(({ broker }) => broker.owns(source))
  return {
    owns: (source) => ownerOf(source) !== undefined,
    ready: async (source) => {
      try {
        await ownerOf(source)?.ask((broker) => broker.ready(source))
      } catch (error) {
        throw error instanceof Failure ? new Failure(error.message, EXIT.failed) : error
      }
    },
    send: async (delivery) => {
      await ownerOf(delivery.source)?.broker.send(delivery)
    },
  }
}
