import type { OperatorReport, Untouched } from '@onceward/postgres'
import { deadLetterChanges, GROUP_SIZE } from '@onceward/postgres/operator'
import type { Command } from 'commander'
import { type Changed, type ChangeOutcome, changeEach } from '../data/change-dead-letters.ts'
import type { Database } from '../data/database.ts'
import { type DeadLetterFilter, isId, selected } from '../data/dead-letters.ts'
import { demandTables, readTablesOf } from '../data/tables.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { Failure, toFailure, usage } from '../failure.ts'
import type { Output } from '../output.ts'
import { countsText } from '../render/dead-letters.ts'
import { counted } from '../render/units.ts'
import { visible } from '../render/visible.ts'
import { command, type End, notEmpty, type Work, withDatabase } from './command.ts'
import { saysYes } from './confirm.ts'
import { type FilterFlags, filterOf, says, withFilters } from './dead-letter-options.ts'

export interface ChangeFlags extends FilterFlags {
  readonly all?: boolean
  readonly yes?: boolean
  readonly by?: string
  readonly why?: string
}

export const RIGHTS = 'onceward_operator; it may not give another name with --by.'

export function replayCommand(end: End): Command {
  const made = command({
    name: 'replay',
    summary: 'Let dead letters run again',
    details: [
      'A running guard of the consumer runs each within seconds, from PostgreSQL, with a full set of attempts.',
      'Nothing is sent to the queue, so the effect happens at most once. What is committed never runs again.',
    ].join('\n'),
    rights: RIGHTS,
    examples: [
      'dead-letters replay 0c5d9f52-6f3c-9b3a-2f86-8f5b7a5e6f10',
      'dead-letters replay --consumer billing --reason attempts-spent --since 2h',
      'dead-letters replay --all --yes',
    ],
  })
  return withTarget(made).action(async (ids: readonly string[]) => {
    end(await withDatabase<ChangeFlags>(made, (work) => change(work, REPLAY, ids)))
  })
}

export function rerunCommand(end: End): Command {
  const made = command({
    name: 'rerun',
    summary: 'Run events again that are done without a statement of their handler',
    details: [
      'For the reason late-statement: a statement came after the handler had returned, so it is missing in the effect.',
      'What the handler has committed happens a second time, so fix the handler and undo that first.',
    ].join('\n'),
    rights: RIGHTS,
    examples: [
      'dead-letters rerun 0c5d9f52-6f3c-9b3a-2f86-8f5b7a5e6f10 --why "await was missing, nothing was written"',
      'dead-letters rerun --consumer billing --reason late-statement --why "await was missing" --yes',
    ],
  })
  return withTarget(made)
    .requiredOption('--why <text>', 'reason, stored in the table audit')
    .action(async (ids: readonly string[]) => {
      notEmpty('--why', made.opts<ChangeFlags>().why)
      end(await withDatabase<ChangeFlags>(made, (work) => change(work, RERUN, ids)))
    })
}

export function discardCommand(end: End): Command {
  const made = command({
    name: 'discard',
    summary: 'Give dead letters up and delete their messages',
    details:
      'A buried event stays dead: copies of it are settled without a run. It cannot be undone.',
    rights: RIGHTS,
    examples: [
      'dead-letters discard 0c5d9f52-6f3c-9b3a-2f86-8f5b7a5e6f10 --why "refunded by hand"',
      'dead-letters discard --consumer billing --reason invalid-payload --why "test data" --yes',
    ],
  })
  return withTarget(made)
    .requiredOption('--why <text>', 'reason, stored in the table audit')
    .action(async (ids: readonly string[]) => {
      notEmpty('--why', made.opts<ChangeFlags>().why)
      end(await withDatabase<ChangeFlags>(made, (work) => change(work, DISCARD, ids)))
    })
}

export function withTarget(made: Command): Command {
  return withFilters(made.argument('[id...]', 'ids of dead letters, instead of a filter'))
    .option('--all', 'all dead letters of all consumers')
    .option('--by <name>', 'name for the table audit (default: the login)')
    .option('--yes', 'do not ask what a filter selects')
}

/** What is done with dead letters. */
export interface Change {
  readonly verb: 'replay' | 'rerun' | 'discard' | 'requeue'
  /** What has been done, after the count. */
  readonly did: string
  /** How many dead letters are changed at once. */
  readonly size: number
  readonly begin: (work: Work<ChangeFlags>) => (ids: readonly string[]) => Promise<OperatorReport>
}

const REPLAY: Change = {
  ...{ verb: 'replay', did: 'will run again', size: GROUP_SIZE },
  begin: (work) => changesOf(work).replay,
}

const RERUN: Change = {
  ...{ verb: 'rerun', did: 'will run again', size: GROUP_SIZE },
  begin: (work) => {
    const changes = changesOf(work)
    return (ids) => changes.rerun(ids, work.options.why ?? '')
  },
}

const DISCARD: Change = {
  ...{ verb: 'discard', did: 'discarded', size: GROUP_SIZE },
  begin: (work) => {
    const changes = changesOf(work)
    return (ids) => changes.discard(ids, work.options.why ?? '')
  },
}

const changesOf = ({ database: { pool, schema }, options: { by } }: Work<ChangeFlags>) =>
  deadLetterChanges(pool, { schema, by })

export async function change(
  work: Work<ChangeFlags>,
  made: Change,
  ids: readonly string[],
): Promise<ExitCode> {
  const { database, options, output } = work
  notEmpty('--by', options.by)
  const targets =
    ids.length > 0 ? await byId(database, ids, options) : await byFilter(database, options)
  if (targets.length === 0) {
    const none: Changed = { done: [], untouched: [] }
    output.answer(none, () => 'There are no dead letters that match.')
    return EXIT.ok
  }
  // Ids name what is changed. How much a filter selects is seen only now.
  const isSure = ids.length > 0 || options.yes === true
  if (!isSure && !(await isConfirmed(made.verb, targets))) {
    output.note('Nothing was changed.')
    return EXIT.no
  }
  const { changed, failure } = await changeAll(work, made, targets)
  output.answer(changed, () => changedText(made, changed))
  if (failure !== undefined) throw toFailure(failure)
  return changed.untouched.length === 0 ? EXIT.ok : EXIT.no
}

type Target = Pick<Selected, 'id'> & Partial<Selected>
type Selected = Awaited<ReturnType<typeof selected>>[number]

async function byId(
  database: Database,
  ids: readonly string[],
  flags: ChangeFlags,
): Promise<readonly Target[]> {
  if (says(filterOf(flags)) || flags.all === true || flags.limit !== undefined) {
    throw usage('Give ids or a filter, not both.')
  }
  const wrong = ids.find((id) => !isId(id))
  if (wrong !== undefined) throw usage('Expected ids of dead letters (UUIDs).')
  await demandTables(database)
  return [...new Set(ids.map((id) => id.toLowerCase()))].map((id) => ({ id }))
}

async function byFilter(database: Database, flags: ChangeFlags): Promise<readonly Target[]> {
  const filter: DeadLetterFilter = filterOf(flags)
  if (flags.all === true && says(filter)) throw usage('Give --all or a filter, not both.')
  if (flags.all !== true && !says(filter)) {
    throw usage('Which dead letters? Give ids, a filter such as --consumer, or --all.')
  }
  return readTablesOf(database, (query) => selected(query, database, filter))
}

/** Asks on the terminal, with the counts of exactly what would be changed. */
async function isConfirmed(verb: string, targets: readonly Target[]): Promise<boolean> {
  if (process.stdin.isTTY !== true) {
    throw usage(
      `${counted(targets.length, 'dead letter')} would be changed. Without a terminal, give --yes.`,
    )
  }
  const groups = Map.groupBy(targets, ({ consumer = '', reason = '' }) => `${consumer}\0${reason}`)
  const counts = [...groups].map(([name, group]) => {
    const [consumer = '', reason = ''] = name.split('\0')
    return { consumer, reason, count: group.length }
  })
  const list = counts.every(({ consumer }) => consumer === '') ? '' : `${countsText(counts)}\n`
  return saysYes(`${list}Really ${verb} ${counted(targets.length, 'dead letter')}?`)
}

const SHOW_EACH_MS = 100

/** Ctrl-C finishes the current group, because its messages may be in their queue already. A second one stops at once. */
async function changeAll(
  work: Work<ChangeFlags>,
  { begin, size }: Change,
  targets: readonly Target[],
): Promise<ChangeOutcome> {
  const { output } = work
  let shownAtMs = 0
  let isInterrupted = false
  const interrupt = (): void => {
    isInterrupted = true
  }
  for (const signal of SIGNALS) process.once(signal, interrupt)
  const ids = targets.map(({ id }) => id)
  const outcome = await changeEach(ids, {
    size,
    act: begin(work),
    goesOn: (count) => {
      const now = performance.now()
      if (now - shownAtMs > SHOW_EACH_MS) {
        shownAtMs = now
        showProgress(output, count, ids.length)
      }
      return !isInterrupted
    },
  })
  for (const signal of SIGNALS) process.off(signal, interrupt)
  output.progress('')
  const { done, untouched } = outcome.changed
  const left = ids.length - done.length - untouched.length
  if (!isInterrupted || left === 0) return outcome
  return { failure: interrupted(left), ...outcome }
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const

const interrupted = (left: number): Failure =>
  new Failure(
    `Interrupted: ${counted(left, 'dead letter')} ${left === 1 ? 'was' : 'were'} not tried.`,
    EXIT.no,
  )

const BAR = 30

function showProgress(output: Output, done: number, all: number): void {
  const filled = Math.floor((done / all) * BAR)
  output.progress(`[${'#'.repeat(filled)}${'-'.repeat(BAR - filled)}] ${done} of ${all}`)
}

const WHY: Readonly<Record<Untouched, string>> = {
  unknown: 'no such dead letter, or it was discarded',
  done: 'its effect is committed, so another run would repeat it: `dead-letters rerun` takes events whose statement came too late',
  'not-dead': 'it waits or runs already',
  'not-done': 'its effect is not committed: replay it',
  held: 'another process publishes, sends or changes it: try again in 30 s',
  'not-stored':
    "its message was too large to store: move it back from the broker's dead-letter place",
  'other-queue': 'it came from a queue that no --broker names',
  'broker-key':
    'its event key is the id or the position that the broker gave it, so a copy would be another event: replay it',
  item: 'it is one item of a message, and its queue has whole messages: replay it',
  sealed: 'its message is sealed: give --seal with its key, or replay it',
  'not-sent': 'nothing was sent',
  unconfirmed:
    'its copy may be in the queue. An event can be requeued again, because its copies run once; after a look into the queue, replay or discard a refused message',
}

function changedText({ did }: Change, { done, untouched }: Changed): string {
  return [
    `${counted(done.length, 'dead letter')} ${did}.`,
    ...untouched.map(({ error, id, why }) => {
      const said = error === undefined ? '' : ` (${visible(error)})`
      return `${id} was left as it is: ${WHY[why]}${said}.`
    }),
  ].join('\n')
}
