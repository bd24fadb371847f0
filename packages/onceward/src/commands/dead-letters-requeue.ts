import type { DeliverySource } from '@onceward/core'
import type { QueueSender } from '@onceward/postgres'
import type { Command } from 'commander'
import { parseBroker } from '../data/broker-address.ts'
import { type OpenBroker, openBroker } from '../data/brokers.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { Failure, usage } from '../failure.ts'
import { collected, command, type End, type Work, withDatabase } from './command.ts'
import { type Change, type ChangeFlags, change, RIGHTS, withTarget } from './dead-letters-change.ts'

interface RequeueFlags extends ChangeFlags {
  readonly broker?: readonly string[]
}

export function requeueCommand(end: End): Command {
  const made = command({
    name: 'requeue',
    summary: 'Send dead letters back to the queue that they came from',
    details: [
      'Key, properties and headers are those of the original. The message is kept until the broker has confirmed it.',
      'Where it does not matter which way an event runs again, `replay` needs no broker.',
    ].join('\n'),
    rights: `${RIGHTS} At the broker: to write to the queue.`,
    examples: [
      'dead-letters requeue 0c5d9f52-6f3c-9b3a-2f86-8f5b7a5e6f10 --broker amqp://localhost',
      'dead-letters requeue --consumer billing --since 2h --broker kafka://localhost:9092',
      'dead-letters requeue --all --broker https://sqs.eu-west-1.amazonaws.com/123456789012/orders',
    ],
  })
  return withTarget(made)
    .option(
      '--broker <address>',
      'broker of the queues: kafka://host:9092, amqp://host/vhost or the URL of an SQS queue',
      collected,
    )
    .action(async (ids: readonly string[]) => {
      end(await withDatabase<RequeueFlags>(made, (work) => requeue(work, ids)))
    })
}

async function requeue(work: Work<RequeueFlags>, ids: readonly string[]): Promise<ExitCode> {
  const named = (work.options.broker ?? []).map(parseBroker)
  if (named.length === 0) {
    throw usage('Which broker? Give --broker, such as --broker amqp://localhost.')
  }
  const brokers: OpenBroker[] = []
  try {
    for (const each of named) brokers.push(await openBroker(each))
    const sender = senderOf(brokers)
    const made: Change = {
      ...{ verb: 'requeue', did: 'sent back' },
      act: (letters, id) => letters.requeue(id, sender),
    }
    return await change(work, made, ids)
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
