import { Command } from 'commander'
import { type Database, openDatabase } from '../data/database.ts'
import type { ExitCode } from '../exit-codes.ts'
import { usage } from '../failure.ts'
import { createOutput, type Output } from '../output.ts'
import { spanMs } from '../span.ts'

/** Ends the program with this code, once everything is closed. */
export type End = (code: ExitCode) => void

export interface CommonOptions {
  readonly url?: string | undefined
  readonly schema: string
  readonly json?: boolean | undefined
}

/** What the help of a command says. */
export interface CommandText {
  readonly name: string
  readonly summary: string
  readonly details?: string | undefined
  /** Which database role is enough. */
  readonly rights: string
  readonly examples: readonly string[]
}

/** A command with the options that all commands have. */
export function command(text: CommandText): Command {
  return commandGroup(text)
    .option('--url <url>', 'connection string of the database (default: DATABASE_URL)')
    .option('--schema <name>', 'schema of the tables', 'onceward')
    .option('--json', 'print one JSON document')
}

/** A command that only has others below it. An option of its own would be taken from theirs. */
export function commandGroup({ name, summary, details, rights, examples }: CommandText): Command {
  const made = new Command(name)
  const shown = examples.map((example) => `  $ npx onceward ${example}`).join('\n')
  return made
    .summary(summary)
    .description(details === undefined ? `${summary}.` : `${summary}.\n\n${details}`)
    .helpOption('-h, --help', 'print this help')
    .addHelpText('after', `\nRights: ${rights}\n\nExamples:\n${shown}`)
    .showSuggestionAfterError()
    .showHelpAfterError('(add --help for help)')
    .exitOverride()
}

/** What a command works with. */
export interface Work<Options> {
  readonly database: Database
  readonly output: Output
  readonly options: Options & CommonOptions
}

/** Opens the database for a command, and closes it however the command ends. */
export async function withDatabase<Options>(
  made: Command,
  run: (work: Work<Options>) => Promise<ExitCode>,
): Promise<ExitCode> {
  const options = made.opts<Options & CommonOptions>()
  const output = createOutput(options.json === true)
  await using database = openDatabase(options.url ?? process.env['DATABASE_URL'], options.schema)
  // Awaited here, because the database is closed when this function returns.
  return await run({ database, output, options })
}

/** Before it, PostgreSQL and JavaScript write instants in another way. */
const YEAR_1_MS = -62_135_596_800_000

const INSTANT =
  /^(\d{4})-(\d{2})-(\d{2})(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s?(?:Z|[+-]\d{2}(?::?\d{2})?)?)?$/i

/** An instant: ISO 8601, or as PostgreSQL writes it, or a span before now. */
export function instantMs(option: string, text: string): number {
  const span = spanMs(text)
  const ms = span === undefined ? dateMs(text) : Date.now() - span
  if (ms >= YEAR_1_MS) return ms
  throw usage(`Expected ${option} to be a time such as 2026-11-22T20:00:00Z or 2h (two hours ago).`)
}

/** NaN for a text that is not a date. JavaScript reads February 30 as March 2. */
function dateMs(text: string): number {
  const [, year, month, day] = INSTANT.exec(text) ?? []
  const daysInMonth = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate()
  return Number(day) <= daysInMonth ? Date.parse(text) : Number.NaN
}

/** A whole number from `least` up. */
export function wholeNumber(option: string, text: string, least = 0): number {
  const number = Number(text)
  if (/^\d+$/.test(text) && Number.isSafeInteger(number) && number >= least) return number
  throw usage(`Expected ${option} to be a whole number from ${least} up.`)
}

/** An option that must say something: in a script, the empty text is that of a variable that is not set. */
export function notEmpty(option: string, text: string | undefined): string | undefined {
  if (text !== undefined && text.trim() === '') throw usage(`Expected ${option} not to be empty.`)
  return text
}

/** For an option that may be given several times. */
export const collected = (value: string, before: readonly string[] = []): readonly string[] => [
  ...before,
  value,
]
