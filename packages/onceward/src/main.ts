import { type Command, CommanderError } from 'commander'
import { EXIT, type ExitCode } from './exit-codes.ts'
import { toFailure, usage, withoutSecrets } from './failure.ts'
import { createProgram } from './program.ts'
import { toJson, visibleLines } from './render/visible.ts'

/** Runs one command. Never throws; what went wrong is on standard error. */
export async function main(args: readonly string[]): Promise<ExitCode> {
  process.stdout.on('error', endWithout)
  // A closed stderr must not end a change half-way.
  process.stderr.on('error', () => undefined)
  const ended: { code: ExitCode } = { code: EXIT.ok }
  const isJson = args.includes('--json')
  try {
    const program = createProgram((code) => {
      ended.code = code
    })
    if (isJson) silenceErrors(program)
    await program.parseAsync([...args], { from: 'user' })
    return ended.code
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT.ok
    // Without --json the parser has printed it, with its advice.
    if (error instanceof CommanderError && !isJson) return EXIT.usage
    const { message, exitCode } =
      error instanceof CommanderError
        ? usage(error.message.replace(/^error: /, ''))
        : toFailure(error)
    const text = withoutSecrets(message, [...args, process.env['DATABASE_URL'] ?? ''])
    const answer = isJson
      ? toJson({ error: { message: text, exitCode } })
      : `onceward: ${visibleLines(text)}`
    process.stderr.write(`${answer}\n`)
    return exitCode
  }
}

/** The parser writes its errors as text, in every command. */
function silenceErrors(command: Command): void {
  command.configureOutput({ writeErr: () => undefined })
  for (const inner of command.commands) silenceErrors(inner)
}

/** The answer cannot be written. */
function endWithout(error: NodeJS.ErrnoException): void {
  // The reader of a pipe has gone, such as `head`. The exit code of the command says more than that.
  if (error.code === 'EPIPE') return
  process.stderr.write(`onceward: The answer could not be written: ${error.message}.\n`)
  process.exit(EXIT.failed)
}
