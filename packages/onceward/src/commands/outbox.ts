import { deadMessageChanges } from '@onceward/postgres/operator'
import type { Command } from 'commander'
import {
  type DeadMessage,
  type DeadMessageFilter,
  deadMessages,
  messagesOf,
  readOutbox,
} from '../data/outbox.ts'
import { loadSeal, SEAL_OPTION } from '../data/seal.ts'
import { readTablesOf } from '../data/tables.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { Failure, usage } from '../failure.ts'
import { bodyText } from '../render/body.ts'
import { deadMessagesText, messageText } from '../render/outbox.ts'
import { counted } from '../render/units.ts'
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

const RIGHTS = 'onceward_operator.'
const DEFAULT_LIMIT = 50
/** Rows that one transaction changes. */
const GROUP = 1_000

export function outboxCommand(end: End): Command {
  const made = commandGroup({
    name: 'outbox',
    summary: 'List, replay and discard dead messages of the outbox, and show any',
    details: 'A message is dead after its destination has refused it in every attempt.',
    rights: RIGHTS,
    examples: [
      'outbox list --destination payments',
      'outbox show 5b0c1f7e-6f0e-5d43-9d0c-2a8f9c0f3c11',
      'outbox replay --destination payments',
      'outbox discard 5b0c1f7e-6f0e-5d43-9d0c-2a8f9c0f3c11',
    ],
  })
  return made
    .addCommand(listCommand(end))
    .addCommand(showCommand(end))
    .addCommand(changeCommand(end, REPLAY))
    .addCommand(changeCommand(end, DISCARD))
}

interface Flags {
  readonly destination?: string
  readonly limit?: string
  readonly all?: boolean
  readonly yes?: boolean
  readonly by?: string
  readonly why?: string
}

function listCommand(end: End): Command {
  const made = command({
    name: 'list',
    summary: 'List dead messages of the outbox, oldest first',
    details: `Without --limit the oldest ${DEFAULT_LIMIT}.`,
    rights: RIGHTS,
    examples: ['outbox list', 'outbox list --destination payments --json'],
  })
  return withFilter(made).action(async () => end(await withDatabase<Flags>(made, list)))
}

async function list({ database, options, output }: Work<Flags>): Promise<ExitCode> {
  const { destination, limit = DEFAULT_LIMIT } = filterOf(options)
  const found = await readTablesOf(database, async (query) => ({
    messages: await deadMessages(query, database, { destination, limit }),
    destinations: (await readOutbox(query, database)) ?? [],
  }))
  const counts = found.destinations
    .filter((each) => each.dead > 0 && (destination ?? each.destination) === each.destination)
    .map((each) => ({ destination: each.destination, count: each.dead }))
  const { messages } = found
  output.answer({ messages, counts }, () => deadMessagesText({ messages, counts }, output))
  return EXIT.ok
}

const DEFAULT_BYTES = 65_536

interface ShowFlags {
  readonly maxBytes: string
  readonly seal?: string
}

function showCommand(end: End): Command {
  const made = command({
    name: 'show',
    summary: 'Show one message of the outbox, whatever its state',
    details:
      'A message that was published is deleted. Several have the same id if a handler gave it several times.',
    rights: RIGHTS,
    examples: ['outbox show 5b0c1f7e-6f0e-5d43-9d0c-2a8f9c0f3c11'],
  })
  return made
    .argument('<id>', 'id of the message')
    .option('--max-bytes <count>', 'most bytes of the payload', `${DEFAULT_BYTES}`)
    .option('--seal <file>', SEAL_OPTION)
    .action(async (id: string) => {
      end(await withDatabase<ShowFlags>(made, (work) => show(work, id)))
    })
}

async function show({ database, options, output }: Work<ShowFlags>, id: string): Promise<ExitCode> {
  const maxBytes = wholeNumber('--max-bytes', options.maxBytes)
  const seal = await loadSeal(notEmpty('--seal', options.seal))
  const found = await readTablesOf(database, (query) =>
    messagesOf(query, database, { ids: [id], maxBytes, seal }),
  )
  if (found.length === 0) {
    throw new Failure(
      `The outbox has no message ${visible(id)}: it was published, or never sent.`,
      EXIT.no,
    )
  }
  const messages = found.map((message) => {
    const shown = bodyText({ ...message, bodyBytes: message.bytes, isOmitted: false }, 'auto')
    return { message, shown }
  })
  const answered = messages.map(({ message: { body, ...rest }, shown }) => ({
    ...rest,
    body: { ...shown, base64: Buffer.from(body).toString('base64') },
  }))
  output.answer({ messages: answered }, () =>
    messages.map(({ message, shown }) => messageText(message, shown, output)).join('\n\n'),
  )
  return EXIT.ok
}

interface Change {
  readonly verb: 'replay' | 'discard'
  readonly summary: string
  readonly details: string
  /** What has been done, after the count. */
  readonly did: string
}

const REPLAY: Change = {
  verb: 'replay',
  summary: 'Let dead messages of the outbox leave again',
  details:
    'A relay publishes each within a second, with its old id and a full set of attempts. Later messages of its key may have left before it.',
  did: 'will be published again',
}

const DISCARD: Change = {
  verb: 'discard',
  summary: 'Delete dead messages of the outbox',
  details: 'It cannot be undone.',
  did: 'discarded',
}

function changeCommand(end: End, change: Change): Command {
  const { details, summary, verb } = change
  const made = command({
    ...{ name: verb, summary, details, rights: RIGHTS },
    examples: [
      `outbox ${verb} 5b0c1f7e-6f0e-5d43-9d0c-2a8f9c0f3c11`,
      `outbox ${verb} --destination payments --yes`,
    ],
  })
  return withFilter(made.argument('[id...]', 'ids of messages, instead of a filter'))
    .option('--all', 'all dead messages to all destinations')
    .option('--yes', 'do not ask what a filter selects')
    .option('--why <text>', 'reason, stored in the table audit')
    .option('--by <name>', 'name for the table audit (default: the login)')
    .action(async (ids: readonly string[]) => {
      end(await withDatabase<Flags>(made, (work) => changeDead(work, change, ids)))
    })
}

function withFilter(made: Command): Command {
  return made
    .option('--destination <name>', 'to this destination')
    .option('--limit <count>', 'at most so many, the oldest first')
}

function filterOf({ destination, limit }: Flags): DeadMessageFilter {
  return {
    destination: notEmpty('--destination', destination),
    limit: limit === undefined ? undefined : wholeNumber('--limit', limit, 1),
  }
}

/** What is asked to be changed. An empty filter must not select every message. */
function targetOf(flags: Flags, ids: readonly string[]): DeadMessageFilter {
  const filter = filterOf(flags)
  const ways = [ids.length > 0, filter.destination !== undefined, flags.all === true]
  if (ways.filter(Boolean).length !== 1 || (ids.length > 0 && filter.limit !== undefined)) {
    throw usage('Which messages? Give either ids, or --destination, or --all.')
  }
  return ids.length > 0 ? { ids } : filter
}

async function changeDead(
  { database, options, output }: Work<Flags>,
  { did, verb }: Change,
  ids: readonly string[],
): Promise<ExitCode> {
  const target = targetOf(options, ids)
  const messages = await readTablesOf(database, (query) => deadMessages(query, database, target))
  const count = counted(messages.length, 'dead message')
  if (ids.length === 0 && options.yes !== true && messages.length > 0) {
    if (process.stdin.isTTY !== true) {
      throw usage(`${count} would be changed. Without a terminal, give --yes.`)
    }
    if (!(await saysYes(`Really ${verb} ${count}?`))) {
      output.note('Nothing was changed.')
      return EXIT.no
    }
  }
  const by = notEmpty('--by', options.by)
  const why = notEmpty('--why', options.why)
  const act = deadMessageChanges(database.pool, { schema: database.schema, by, why })[verb]
  const changed = new Set<string>()
  for (let at = 0; at < messages.length; at += GROUP) {
    const positions = messages.slice(at, at + GROUP).map(({ position }) => position)
    for (const position of await act(positions)) changed.add(position)
  }
  const isDone = ({ position }: DeadMessage): boolean => changed.has(position)
  const done = messages.filter(isDone).map(({ id }) => id)
  const isFound = new Set(done)
  const asked = ids.length > 0 ? [...new Set(ids)] : messages.map(({ id }) => id)
  const untouched = asked.filter((id) => !isFound.has(id))
  output.answer({ done, untouched }, () =>
    [
      `${counted(done.length, 'message')} ${did}.`,
      ...untouched.map((id) => `${visible(id)} was left as it is: no dead message has this id.`),
    ].join('\n'),
  )
  return untouched.length === 0 ? EXIT.ok : EXIT.no
}
