import { CommanderError } from 'commander'
import { EXIT, type ExitCode } from './exit-codes.ts'
import { toFailure, withoutSecrets } from './failure.ts'
import { createProgram } from './program.ts'
import { toJson, visibleLines } from './render/visible.ts'

/** Runs one command. Never throws; what went wrong is on standard error. */
export async function main(args: readonly string[]): Promise<ExitCode> {
  process.stdout.on('error', endWithout)
  // A remark that nobody reads must not end a change half-way.
  process.stderr.on('error', () => undefined)
  const ended: { code: ExitCode } = { code: EXIT.ok }
  try {
    await createProgram((code) => {
      ended.code = code
    }).parseAsync([...args], { from: 'user' })
    return ended.code
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage
    const { message, exitCode } = toFailure(error)
    const text = withoutSecrets(message, [...args, process.env['DATABASE_URL'] ?? ''])
    const answer = args.includes('--json')
      ? toJson({ error: { message: text, exitCode } })
      : `onceward: ${visibleLines(text)}`
    process.stderr.write(`${answer}\n`)
    return exitCode
  }
}

/** The answer cannot be written. */
function endWithout(error: NodeJS.ErrnoException): void {
  // The reader of a pipe has gone, such as `head`.
  if (error.code === 'EPIPE') process.exit(EXIT.ok)
  process.stderr.write(`onceward: The answer could not be written: ${error.message}.\n`)
  process.exit(EXIT.failed)
}
