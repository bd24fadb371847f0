import type { Command } from 'commander'
import { demandName, eventFactsOf } from '../data/event.ts'
import { timelineOf } from '../data/timeline.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { timelineText } from '../render/timeline.ts'
import { command, type End, notEmpty, type Work, withDatabase } from './command.ts'

interface ExplainFlags {
  readonly consumer?: string
  readonly tenant?: string
  readonly id?: string
  readonly redis?: string
  readonly redisNamespace?: string
}

export function explainCommand(end: End): Command {
  const made = command({
    name: 'explain',
    summary: 'Show the history of one event, and the outcome that its next delivery would have',
    details:
      'Reads the row of the event, its attempts and errors, the lease, dead letters with its key, and what operators did. Changes nothing.',
    rights: 'onceward_operator. With --redis: read access to the keys of the guards.',
    examples: [
      'explain order-4711 --consumer billing',
      'explain order-4711 --consumer billing --tenant acme --redis redis://localhost:6379',
      'explain --id 0c5d9f52-6f3c-9b3a-2f86-8f5b7a5e6f10   # eventId of a log line',
    ],
  })
  return made
    .argument('[key]', 'event key')
    .option('--consumer <name>', 'consumer of the guard')
    .option('--tenant <name>', 'tenant of the event')
    .option('--id <uuid>', 'event id, instead of key and consumer')
    .option('--redis <url>', 'also ask this Redis')
    .option('--redis-namespace <name>', '`namespace` of redisLeases')
    .action(async (key: string | undefined) => {
      const flags = made.opts<ExplainFlags>()
      demandName({ ...flags, key })
      notEmpty('--redis-namespace', flags.redisNamespace)
      end(await withDatabase<ExplainFlags>(made, (work) => run(work, key)))
    })
}

async function run(work: Work<ExplainFlags>, key: string | undefined): Promise<ExitCode> {
  const { database, output, options } = work
  const facts = await eventFactsOf(database, { ...options, key })
  const timeline = timelineOf(facts)
  const { facts: all, ...rest } = timeline
  output.answer({ ...all, ...rest }, () => timelineText(timeline, output))
  return timeline.isKnown ? EXIT.ok : EXIT.no
}
