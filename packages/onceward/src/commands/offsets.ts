import { resetOffsets } from '@onceward/postgres/operator'
import type { Command } from 'commander'
import { type PartitionOffsets, readOffsets } from '../data/offsets.ts'
import { readTablesOf } from '../data/tables.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { usage } from '../failure.ts'
import { table } from '../render/table.ts'
import { counted, instant } from '../render/units.ts'
import { visible } from '../render/visible.ts'
import {
  command,
  commandGroup,
  type End,
  notEmpty,
  type Work,
  wholeNumber,
  withDatabase,
} from './command.ts'
import { saysYes } from './confirm.ts'

const RIGHTS = 'the owner of the tables, or onceward_operator.'

export function offsetsCommand(end: End): Command {
  const made = commandGroup({
    name: 'offsets',
    summary: "Show and reset offsets of consumers with identity: 'offsets'",
    details: 'They are kept in PostgreSQL. The offsets that Kafka has of the group are a hint.',
    rights: RIGHTS,
    examples: [
      'offsets show',
      'offsets reset --consumer billing --topic orders --partition 3 --to 1200',
    ],
  })
  return made.addCommand(showCommand(end)).addCommand(resetCommand(end))
}

interface Flags {
  readonly consumer?: string
  readonly topic?: string
  readonly partition?: string
  readonly all?: boolean
  readonly to?: string
  readonly yes?: boolean
}

function showCommand(end: End): Command {
  const made = command({
    name: 'show',
    summary: 'Show how far consumers are, by partition',
    details: 'OPEN are records below NEXT that have failed, wait or are dead.',
    rights: RIGHTS,
    examples: ['offsets show', 'offsets show --consumer billing --json'],
  })
  return made
    .option('--consumer <name>', 'of this consumer')
    .option('--topic <name>', 'of this topic')
    .action(async () => end(await withDatabase<Flags>(made, show)))
}

const HEAD = ['CONSUMER', 'TOPIC', 'PARTITION', 'NEXT', 'OPEN', 'GROUP', 'CLUSTER', 'CLAIMED']

async function show({ database, options, output }: Work<Flags>): Promise<ExitCode> {
  const partitions = await readTablesOf(database, (query) => readOffsets(query, database, options))
  output.answer({ partitions }, () => {
    if (partitions.length === 0) return 'There are no offsets that match.'
    const rows = partitions.map(({ claimedAtMs, cluster, consumer, group, open, ...each }) => [
      ...[consumer, each.topic, String(each.partition), String(each.nextOffset)],
      ...[openText(open), visible(group) || '–', cluster || '–'],
      instant(claimedAtMs).slice(0, 19),
    ])
    return table(HEAD, rows)
  })
  return EXIT.ok
}

function openText(open: readonly number[]): string {
  const ranges: string[] = []
  for (let at = 0; at + 1 < open.length; at += 2) {
    const [from = 0, behind = 0] = open.slice(at, at + 2)
    ranges.push(behind - from === 1 ? String(from) : `${from}-${behind - 1}`)
  }
  return ranges.join(',') || '–'
}

function resetCommand(end: End): Command {
  const made = command({
    name: 'reset',
    summary: 'Let a consumer go on with another record',
    details:
      'Every record from there on runs, also one that has run before: it is another event then. Records before it do not run. Offsets of one partition mean nothing in another, so give --partition, or --all for a number such as 0. Stop the consumers first, or restart them afterwards.',
    rights: RIGHTS,
    examples: [
      'offsets reset --consumer billing --topic orders --partition 3 --to 1200',
      'offsets reset --consumer billing --topic orders --all --to 0',
    ],
  })
  return made
    .requiredOption('--consumer <name>', 'of this consumer')
    .requiredOption('--topic <name>', 'of this topic')
    .option('--partition <number>', 'this partition')
    .option('--all', 'all partitions that are stored')
    .requiredOption('--to <offset>', 'the record that runs next')
    .option('--yes', 'do not ask what --all changes')
    .action(async () => end(await withDatabase<Flags>(made, reset)))
}

async function reset({ database, options, output }: Work<Flags>): Promise<ExitCode> {
  const consumer = notEmpty('--consumer', options.consumer)
  const topic = notEmpty('--topic', options.topic)
  if (consumer === undefined || topic === undefined) throw usage('Which consumer and topic?')
  const to = wholeNumber('--to', options.to ?? '', 0)
  const partition =
    options.partition === undefined ? undefined : wholeNumber('--partition', options.partition, 0)
  if ((partition === undefined) !== (options.all === true)) {
    throw usage('Which partitions? Give either --partition or --all.')
  }
  const stored = await readTablesOf(database, (query) =>
    readOffsets(query, database, { consumer, topic }),
  )
  if (partition === undefined && options.yes !== true && stored.length > 0) {
    const text = `${changesText(stored, to)}\n`
    if (process.stdin.isTTY !== true) throw usage(`${text}Without a terminal, give --yes.`)
    if (!(await saysYes(`${text}Really reset ${counted(stored.length, 'partition')}?`))) {
      output.note('Nothing was changed.')
      return EXIT.no
    }
  }
  const which = { schema: database.schema, consumer, topic, partition }
  const reset = await resetOffsets(database.pool, { ...which, to })
  output.answer({ partitions: reset.map((each) => each.partition), to, before: reset }, () =>
    reset.length === 0
      ? 'There are no offsets that match. Look with `npx onceward offsets show`.'
      : `${changesText(reset, to)}\n${counted(reset.length, 'partition')} set to ${to}. Members that run claim them anew; restart those that are idle.`,
  )
  return reset.length === 0 ? EXIT.no : EXIT.ok
}

type Before = Pick<PartitionOffsets, 'partition' | 'nextOffset' | 'open'>

/** What a reset does to each partition. */
const changesText = (partitions: readonly Before[], to: number): string =>
  partitions.map((each) => `Partition ${each.partition}: ${changeText(each, to)}.`).join('\n')

function changeText({ nextOffset, open }: Before, to: number): string {
  const parts: string[] = []
  if (to < nextOffset) parts.push(`${recordsText(to, nextOffset)} will run again`)
  if (to > nextOffset) parts.push(`${recordsText(nextOffset, to)} will be skipped`)
  const left = below(open, to)
  if (left.length > 0) parts.push(`of ${openText(left)}, those that have not ended will be skipped`)
  return parts.join('; ') || 'no record will run again or be skipped'
}

const recordsText = (from: number, end: number): string =>
  end - from === 1
    ? `record ${from}`
    : `records ${from} to ${end - 1} (${(end - from).toLocaleString('en')})`

/** The parts of the ranges that lie below an offset. */
function below(open: readonly number[], to: number): readonly number[] {
  const left: number[] = []
  for (let at = 0; at + 1 < open.length; at += 2) {
    const [from = 0, end = 0] = open.slice(at, at + 2)
    if (from < to) left.push(from, Math.min(end, to))
  }
  return left
}
