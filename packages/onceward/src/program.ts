import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { completionCommand } from './commands/completion.ts'
import { consoleCommand } from './commands/console.ts'
import { deadLettersCommand } from './commands/dead-letters.ts'
import { doctorCommand } from './commands/doctor.ts'
import { explainCommand } from './commands/explain.ts'
import { migrateCommand } from './commands/migrate.ts'
import { offsetsCommand } from './commands/offsets.ts'
import { outboxCommand } from './commands/outbox.ts'
import { pauseCommand, resumeCommand } from './commands/pause.ts'
import { proveCommand } from './commands/prove.ts'
import { relayCommand } from './commands/relay.ts'
import { removeCommand } from './commands/remove.ts'
import { statusCommand, watchCommand } from './commands/status.ts'
import { sweepCommand } from './commands/sweep.ts'
import type { ExitCode } from './exit-codes.ts'

const EPILOGUE = `
Every command but completion takes --url (or DATABASE_URL), --schema and --json.

Exit codes: 0 done; 1 the answer is no, such as findings, pending migrations or an unknown event;
2 the command line is wrong; 3 it could not be done, such as no connection or no rights.

Rights of each command: docs/cli.md, docs/least-privilege.sql.`

/** All commands. @param end - Called with the exit code of the command that ran. */
export function createProgram(end: (code: ExitCode) => void): Command {
  const program = new Command('onceward')
  program
    .description('Operates the guards of onceward: tables, events, dead letters.')
    .version(version(), '--version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .addHelpText('after', EPILOGUE)
    .showSuggestionAfterError()
    .showHelpAfterError('(add --help for help)')
    .exitOverride()
  const commands = [
    ...[migrateCommand, doctorCommand, explainCommand, deadLettersCommand],
    ...[pauseCommand, resumeCommand, removeCommand],
    ...[outboxCommand, relayCommand, offsetsCommand],
    ...[statusCommand, watchCommand, sweepCommand, consoleCommand, proveCommand],
  ]
  for (const make of commands) program.addCommand(make(end))
  program.addCommand(completionCommand(end, program))
  return program
}

function version(): string {
  const file = new URL('../package.json', import.meta.url)
  return String(JSON.parse(readFileSync(file, 'utf8')).version)
}
