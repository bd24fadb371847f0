import { deadLetters } from '@onceward/postgres'
import type { Command } from 'commander'
import { parseBroker } from '../data/broker-address.ts'
import { withSender } from '../data/queue-sender.ts'
import { loadSeal, SEAL_OPTION } from '../data/seal.ts'
import type { ExitCode } from '../exit-codes.ts'
import { usage } from '../failure.ts'
import { collected, command, type End, notEmpty, type Work, withDatabase } from './command.ts'
import { type Change, type ChangeFlags, change, RIGHTS, withTarget } from './dead-letters-change.ts'

interface RequeueFlags extends ChangeFlags {
  readonly broker?: readonly string[]
  readonly seal?: string
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
    .option('--seal <file>', SEAL_OPTION)
    .action(async (ids: readonly string[]) => {
      end(await withDatabase<RequeueFlags>(made, (work) => requeue(work, ids)))
    })
}

async function requeue(work: Work<RequeueFlags>, ids: readonly string[]): Promise<ExitCode> {
  const named = (work.options.broker ?? []).map(parseBroker)
  if (named.length === 0) {
    throw usage('Which broker? Give --broker, such as --broker amqp://localhost.')
  }
  const seal = await loadSeal(notEmpty('--seal', work.options.seal))
  return withSender(named, async (sender) => {
    const made: Change = {
      ...{ verb: 'requeue', did: 'sent back', size: 1 },
      begin: ({ database: { pool, schema }, options: { by } }) => {
        const letters = deadLetters(pool, { schema, by, seal })
        return ([id = '']) => letters.requeue(id, sender)
      },
    }
    return change(work, made, ids)
  })
}
