import { pauseConsumer, type ResumeOptions, resumeConsumer } from '@onceward/postgres'
import type { Command } from 'commander'
import { consumerNames } from '../data/status.ts'
import { readTablesOf } from '../data/tables.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { Failure, usage } from '../failure.ts'
import { instant } from '../render/units.ts'
import { visible } from '../render/visible.ts'
import { spanMs } from '../span.ts'
import { command, type End, instantMs, notEmpty, type Work, withDatabase } from './command.ts'

/** Options of the commands that change a consumer. */
export interface ConsumerFlags {
  readonly by?: string
  readonly why?: string
}

interface PauseFlags extends ConsumerFlags {
  readonly until?: string
}

const RIGHTS = 'onceward_operator; it may not give another name with --by.'

export function pauseCommand(end: End): Command {
  const made = command({
    name: 'pause',
    summary: 'Pause a consumer in all its processes',
    details: [
      'Within two seconds none of them starts an event. What was not started goes back to the broker, and what runs goes on.',
      'Health, metrics and `status` say who has paused it and why. A pause that is in force is replaced.',
      'Guards with leases alone and guards on Redis cannot be paused from outside.',
    ].join('\n'),
    rights: RIGHTS,
    examples: [
      'pause billing --why "the bank is down"',
      'pause billing --until 2h --by ana',
      'pause billing --until 2026-11-30T06:00:00Z',
    ],
  })
  return withNames(made)
    .option('--until <time>', 'when the pause ends by itself: a time, or a span from now')
    .action(async (consumer: string) => {
      end(await withDatabase<PauseFlags>(made, (work) => pause(work, consumer)))
    })
}

export function resumeCommand(end: End): Command {
  const made = command({
    name: 'resume',
    summary: 'End the pause of a consumer',
    details: 'Its processes go on within two seconds, without a restart.',
    rights: RIGHTS,
    examples: ['resume billing', 'resume billing --by ana --why "the bank is back"'],
  })
  return withNames(made).action(async (consumer: string) => {
    end(await withDatabase<ConsumerFlags>(made, (work) => resume(work, consumer)))
  })
}

export const withNames = (made: Command): Command =>
  made
    .argument('<consumer>', 'name of the consumer')
    .option('--by <name>', 'name for the table audit and for health (default: the login)')
    .option('--why <text>', 'reason, for the table audit and for health')

async function pause(work: Work<PauseFlags>, consumer: string): Promise<ExitCode> {
  const { database, options, output } = work
  const untilMs = options.until === undefined ? undefined : laterMs(options.until)
  const given = await givenOf(work, consumer)
  const until = untilMs === undefined ? undefined : new Date(untilMs)
  await pauseConsumer(database.pool, consumer, { ...given, until })
  const answer = { consumer, paused: true, until: until?.toISOString() ?? null }
  output.answer(answer, () => {
    const end = untilMs === undefined ? '' : ` until ${instant(untilMs)}`
    return `${visible(consumer)} is paused${end}. Its processes start nothing within two seconds. End it with \`npx onceward resume ${visible(consumer)}\`.`
  })
  return EXIT.ok
}

async function resume(work: Work<ConsumerFlags>, consumer: string): Promise<ExitCode> {
  const { database, output } = work
  const wasPaused = await resumeConsumer(database.pool, consumer, await givenOf(work, consumer))
  output.answer({ consumer, paused: false, wasPaused }, () =>
    wasPaused
      ? `${visible(consumer)} goes on within two seconds.`
      : `${visible(consumer)} was not paused.`,
  )
  return EXIT.ok
}

/** The options of a change. A name that is not known is most likely a wrong one. */
export async function givenOf(
  { database, options }: Work<ConsumerFlags>,
  consumer: string,
): Promise<ResumeOptions> {
  const by = notEmpty('--by', options.by)
  const why = notEmpty('--why', options.why)
  const names = await readTablesOf(database, (query) => consumerNames(query, database))
  if (!names.includes(consumer)) {
    const known = names.length === 0 ? 'None has registered.' : `Known: ${names.join(', ')}.`
    throw new Failure(
      `No consumer ${visible(consumer)} has registered in this database. ${visible(known)} Guards with leases alone and guards on Redis register nowhere, so operators cannot change them from outside.`,
      EXIT.no,
    )
  }
  return { schema: database.schema, by, why }
}

/** A time in the future, or a span from now. */
function laterMs(text: string): number {
  const span = spanMs(text)
  const ms = span === undefined ? instantMs('--until', text) : Date.now() + span
  if (ms > Date.now()) return ms
  throw usage('Expected --until to be a time in the future, such as 2h (in two hours).')
}
