import { type Command, Option } from 'commander'
import { counts, type DeadLetter, deadLetterOf, isId, summaries } from '../data/dead-letters.ts'
import { readable } from '../data/readable.ts'
import { loadSeal, SEAL_OPTION } from '../data/seal.ts'
import { readTablesOf } from '../data/tables.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { Failure, usage } from '../failure.ts'
import { type BodyForm, bodyText } from '../render/body.ts'
import { deadLetterText, listText } from '../render/dead-letters.ts'
import { command, type End, notEmpty, type Work, wholeNumber, withDatabase } from './command.ts'
import { type FilterFlags, filterOf, withFilters } from './dead-letter-options.ts'

const DEFAULT_LIMIT = 50
const DEFAULT_BYTES = 65_536
/** What the inbox stores by default; PostgreSQL takes no parameter that is larger. */
const MOST_BYTES = 134_217_728

export function listCommand(end: End): Command {
  const made = command({
    name: 'list',
    summary: 'List dead letters, oldest first',
    details: `Without --limit the oldest ${DEFAULT_LIMIT}, with counts of all that match.`,
    rights: 'onceward_operator.',
    examples: [
      'dead-letters list',
      'dead-letters list --consumer billing --reason attempts-spent --since 2h',
      'dead-letters list --search "card declined" --json',
    ],
  })
  return withFilters(made).action(async () => end(await withDatabase<FilterFlags>(made, list)))
}

async function list({ database, output, options }: Work<FilterFlags>): Promise<ExitCode> {
  const filter = filterOf(options)
  const limit = filter.limit ?? DEFAULT_LIMIT
  const found = await readTablesOf(database, async (query) => ({
    letters: await summaries(query, database, { ...filter, limit }),
    counts: await counts(query, database, filter),
  }))
  const letters = found.letters.map(readable)
  output.answer({ letters, counts: found.counts }, () =>
    listText({ letters, counts: found.counts }, output),
  )
  return EXIT.ok
}

interface ShowFlags {
  readonly body: BodyForm | 'raw'
  readonly maxBytes: string
  readonly seal?: string
}

export function showCommand(end: End): Command {
  const made = command({
    name: 'show',
    summary: 'Show one dead letter with its message and its error',
    details:
      'Bytes that a terminal would obey are shown escaped. `--body raw` writes the bytes alone.',
    rights: 'onceward_operator.',
    examples: [
      'dead-letters show 0c5d9f52-6f3c-9b3a-2f86-8f5b7a5e6f10',
      'dead-letters show 0c5d9f52-6f3c-9b3a-2f86-8f5b7a5e6f10 --body hex',
      'dead-letters show 0c5d9f52-6f3c-9b3a-2f86-8f5b7a5e6f10 --body raw > message.bin',
    ],
  })
  return made
    .argument('<id>', 'id of the dead letter')
    .addOption(
      new Option('--body <form>', 'how to show the body')
        .choices(['auto', 'json', 'text', 'hex', 'raw'])
        .default('auto'),
    )
    .option('--max-bytes <count>', 'most bytes of the body; `raw` has no limit', `${DEFAULT_BYTES}`)
    .option('--seal <file>', SEAL_OPTION)
    .action(async (id: string) => {
      end(await withDatabase<ShowFlags>(made, (work) => show(work, id)))
    })
}

async function show(work: Work<ShowFlags>, id: string): Promise<ExitCode> {
  const { database, output, options } = work
  const isRaw = options.body === 'raw'
  if (isRaw && output.isJson) throw usage('Give --json or --body raw, not both.')
  if (!isId(id)) throw usage('Expected the id of a dead letter (a UUID), as `list` shows it.')
  const wanted = wholeNumber('--max-bytes', options.maxBytes)
  const maxBytes = isRaw ? MOST_BYTES : Math.min(wanted, MOST_BYTES)
  const seal = await loadSeal(notEmpty('--seal', options.seal))
  const stored = await readTablesOf(database, (query) =>
    deadLetterOf(query, database, { id, maxBytes, seal }),
  )
  if (stored === undefined) {
    throw new Failure(
      `There is no open dead letter ${id}. It may be replayed, discarded or done: run \`npx onceward explain --id ${id}\`.`,
      EXIT.no,
    )
  }
  const letter = readable(stored)
  if (isRaw && letter.sealed !== undefined) {
    throw new Failure(`The message is ${letter.sealed}`, EXIT.no)
  }
  if (options.body === 'raw') process.stdout.write(letter.body)
  else answer(letter, options.body, output)
  return EXIT.ok
}

function answer(letter: DeadLetter, form: BodyForm, output: Work<ShowFlags>['output']): void {
  const { body, ...rest } = letter
  const shown = bodyText(letter, form)
  output.answer({ ...rest, body: { ...shown, base64: Buffer.from(body).toString('base64') } }, () =>
    deadLetterText(letter, shown, output),
  )
}
