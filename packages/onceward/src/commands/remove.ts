import { type Removal, removeConsumer } from '@onceward/postgres'
import type { Command } from 'commander'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { counted } from '../render/units.ts'
import { visible } from '../render/visible.ts'
import { command, type End, type Work, withDatabase } from './command.ts'
import { type ConsumerFlags, givenOf, withNames } from './pause.ts'

interface RemoveFlags extends ConsumerFlags {
  readonly leaveEvents?: boolean
}

export function removeCommand(end: End): Command {
  const made = command({
    name: 'remove',
    summary: 'Remove a consumer that was taken away or renamed',
    details: [
      'Status, doctor, console and metrics leave it out. It is refused while a worker of it runs, and while events of it',
      'wait or are dead. No event is forgotten: if the consumer starts again, it is shown again, and copies of its old',
      'events are duplicates as before.',
    ].join('\n'),
    rights: 'onceward_operator; it may not give another name with --by.',
    examples: [
      'remove billing-v1 --why "it is billing now"',
      'remove billing-v1 --leave-events --by ana',
    ],
  })
  return withNames(made)
    .option('--leave-events', 'although events of it wait or are dead: they stay stored')
    .action(async (consumer: string) => {
      end(await withDatabase<RemoveFlags>(made, (work) => remove(work, consumer)))
    })
}

async function remove(work: Work<RemoveFlags>, consumer: string): Promise<ExitCode> {
  const { database, options, output } = work
  const given = await givenOf(work, consumer)
  const { leaveEvents } = options
  const removal = await removeConsumer(database.pool, consumer, { ...given, leaveEvents })
  output.answer({ consumer, ...removal }, () => removalText(consumer, removal))
  return removal.kind === 'removed' ? EXIT.ok : EXIT.no
}

/** What was done, or why not and what to do. */
export function removalText(consumer: string, removal: Removal): string {
  const name = visible(consumer)
  if (removal.kind === 'removed') {
    return `${name} is removed. If it starts again, it is shown again, and copies of its old events are duplicates as before.`
  }
  if (removal.kind === 'running') {
    return removal.workers.length === 0
      ? `${name} was not removed: a guard of it has registered within two hours and sends no heartbeats, as in a Lambda function. Try again later.`
      : `${name} was not removed, because workers of it run: ${visible(removal.workers.join(', '))}. Stop them first; one that was killed counts for 90 seconds.`
  }
  const { deadLetters, waiting } = removal
  const left = [
    ...(waiting > 0 ? [`${counted(waiting, 'event')} ${waiting === 1 ? 'waits' : 'wait'}`] : []),
    ...(deadLetters > 0
      ? [`${counted(deadLetters, 'dead letter')} ${deadLetters === 1 ? 'is' : 'are'} open`]
      : []),
  ]
  return `${name} was not removed: ${left.join(', and ')}. Replay or discard the dead letters, or run \`npx onceward remove ${name} --leave-events\`, which leaves them stored.`
}
