import { sweep } from '@onceward/postgres/operator'
import type { Command } from 'commander'
import { demandTables } from '../data/tables.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { counted } from '../render/units.ts'
import { command, type End, type Work, withDatabase } from './command.ts'

interface SweepFlags {
  readonly trustClock?: boolean
}

export function sweepCommand(end: End): Command {
  const made = command({
    name: 'sweep',
    summary: 'Delete events that are older than their dedup window, now',
    details:
      'Running guards do so all the time. Use it when no guard runs, or after `dedupWindowMs` was shortened. Nothing is deleted while a clock may be wrong.',
    rights: 'the owner of the tables, or onceward_consumer; for --trust-clock onceward_operator.',
    examples: ['sweep', 'sweep --trust-clock   # the clock of the database is right'],
  })
  return made
    .option(
      '--trust-clock',
      'first confirm, for all guards, that the clock of the database is right',
    )
    .action(async () => end(await withDatabase<SweepFlags>(made, run)))
}

async function run({ database, output, options }: Work<SweepFlags>): Promise<ExitCode> {
  await demandTables(database)
  const { pool, schema } = database
  const report = await sweep(pool, {
    schema,
    confirmsClock: options.trustClock,
    onStep: ({ page, pages }) => output.progress(`swept to page ${page} of ${pages}`),
  })
  output.progress('')
  output.answer(report, () => {
    const deleted = `${counted(report.deleted, 'event')} deleted`
    switch (report.kind) {
      case 'swept':
        return `${deleted}.`
      case 'busy':
        return `${deleted}. A guard sweeps all the time: leave it to the guards, or try again.`
      case 'doubtful':
        return `${deleted}, because a clock may be wrong: ${report.doubt}. ${
          options.trustClock === true
            ? 'Set the clock of this machine, then run the command again.'
            : 'If the clock of the database is right, run `npx onceward sweep --trust-clock`.'
        }`
      default:
        return report satisfies never
    }
  })
  return report.kind === 'swept' ? EXIT.ok : EXIT.no
}
