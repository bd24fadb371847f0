import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from 'commander'
import { readStatus, type Status } from '../data/status.ts'
import { readTablesOf } from '../data/tables.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { toShownFailure, usage } from '../failure.ts'
import { statusText } from '../render/status.ts'
import { visibleLines } from '../render/visible.ts'
import { spanMs } from '../span.ts'
import { command, type End, type Work, wholeNumber, withDatabase } from './command.ts'

const RIGHTS =
  'onceward_operator. If it was made by an earlier docs/least-privilege.sql, `doctor` names the grants that it lacks.'

interface StatusFlags {
  readonly tables?: boolean
}

const TABLES = ['--tables', 'also the tables of onceward with their sizes and growth'] as const

export function statusCommand(end: End): Command {
  const made = command({
    name: 'status',
    summary: 'Show consumers with their rates, what waits, dead letters by reason',
    details:
      'IN HAND is the number of counted runs without a recorded result; the first run of a clean event is not counted anywhere.',
    rights: RIGHTS,
    examples: ['status', 'status --tables', 'status --json | jq .consumers'],
  })
  return made
    .option(...TABLES)
    .action(async () => end(await withDatabase<StatusFlags>(made, status)))
}

async function status({ database, options, output }: Work<StatusFlags>): Promise<ExitCode> {
  const read = await readTablesOf(database, (query) => readStatus(query, database))
  output.answer(read, () =>
    statusText({ status: read, hasTables: options.tables === true }, output),
  )
  return EXIT.ok
}

interface WatchFlags extends StatusFlags {
  readonly interval: string
  readonly times?: string
}

export function watchCommand(end: End): Command {
  const made = command({
    name: 'watch',
    summary: 'Show the status again and again',
    details:
      'Ends with Ctrl-C. While the database does not answer, it says so and keeps trying. With --json one document per line.',
    rights: RIGHTS,
    examples: ['watch', 'watch --interval 10s', 'watch --json --times 2'],
  })
  return made
    .option(...TABLES)
    .option('--interval <span>', 'time between two looks', '2s')
    .option('--times <count>', 'end after so many looks')
    .action(async () => end(await withDatabase<WatchFlags>(made, watch)))
}

/** A timer that is set for more than 24 days fires at once. */
const LONGEST_INTERVAL_MS = 86_400_000
const CLEAR = '\u001b[H\u001b[2J\u001b[3J'

async function watch({ database, output, options }: Work<WatchFlags>): Promise<ExitCode> {
  const intervalMs = spanMs(options.interval)
  if (intervalMs === undefined || intervalMs < 100 || intervalMs > LONGEST_INTERVAL_MS) {
    throw usage('Expected --interval to be a span from 100ms to 1d, such as 2s.')
  }
  const { times } = options
  let left = times === undefined ? Number.POSITIVE_INFINITY : wholeNumber('--times', times, 1)
  const stop = new AbortController()
  process.once('SIGINT', () => stop.abort())
  // The reader of the pipe has gone.
  process.stdout.once('error', () => stop.abort())
  let before: Status | undefined
  let isRead = true
  while (left > 0 && !stop.signal.aborted) {
    const now: Status | undefined = await readAgain({ database, output }, before)
    isRead = now !== undefined
    if (now !== undefined) {
      output.answer(now, () => {
        const clear = process.stdout.isTTY === true ? CLEAR : ''
        return `${clear}${statusText({ status: now, before, hasTables: options.tables === true }, output)}`
      })
      before = now
    }
    left -= 1
    if (left > 0) await sleep(intervalMs, undefined, { signal: stop.signal }).catch(() => undefined)
  }
  return isRead ? EXIT.ok : EXIT.failed
}

/** An operator who watches a failover wants to see its end. Only the first look must succeed, because a wrong URL never does. */
async function readAgain(
  { database, output }: Pick<Work<WatchFlags>, 'database' | 'output'>,
  before: Status | undefined,
): Promise<Status | undefined> {
  try {
    return await readTablesOf(database, (query) => readStatus(query, database))
  } catch (error) {
    if (before === undefined) throw error
    output.note(`${visibleLines(toShownFailure(error).message)} Trying again.`)
    return undefined
  }
}
