import { describeError, isError } from '../model/errors.ts'
import { LINES, type Logger } from '../model/logger.ts'
import { inspect } from '../node.ts'

/** One line of a log, before it is written. */
export interface LogLine {
  readonly level: keyof Logger
  readonly fields: Readonly<Record<string, unknown>>
  readonly message: string
  readonly atMs: number
}

const NUMBERS: Readonly<Record<keyof Logger, number>> = { debug: 20, info: 30, warn: 40, error: 50 }

/** A line of JSON as pino writes it: its tools and the collectors of logs read it. */
export function jsonText(
  line: LogLine,
  base: { readonly pid: number; readonly hostname: string },
): string {
  const { atMs, fields, level, message } = line
  const head = { level: NUMBERS[level], time: atMs, ...base }
  const write = (own: object): string =>
    JSON.stringify({ ...head, ...own, msg: message }, (_, value: unknown) =>
      typeof value === 'bigint' ? String(value) : value,
    )
  const described = Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      isError(value) ? describeError(value) : value,
    ]),
  )
  try {
    return write(described)
  } catch {
    // A field that has no JSON, such as one that contains itself.
    return write({ fields: inspect(fields, { depth: 4 }) })
  }
}

/** Paints a text, or leaves it as it is. */
export type Paint = (colour: 'dim' | 'bold' | 'red' | 'yellow' | 'cyan', text: string) => string

const CODES = {
  dim: [2, 22],
  bold: [1, 22],
  red: [31, 39],
  yellow: [33, 39],
  cyan: [36, 39],
} as const

export const painted: Paint = (colour, text) =>
  `\u001b[${CODES[colour][0]}m${text}\u001b[${CODES[colour][1]}m`
export const plain: Paint = (_, text) => text

/** Lines for a person at a terminal: what happened, the error with its stack, and the command that helps. */
export function peopleText(line: LogLine, paint: Paint): string {
  const { atMs, fields, level, message } = line
  const consumer = typeof fields['consumer'] === 'string' ? fields['consumer'] : 'onceward'
  const text = TEXTS[message]?.(fields) ?? message
  const isLoud = level === 'warn' || level === 'error'
  const mark = isLoud ? `${paint(level === 'warn' ? 'yellow' : 'red', level.toUpperCase())} ` : ''
  const rest = message in TEXTS ? '' : restOf(fields)
  const head = `${paint('dim', clock(atMs))} ${mark}${paint('bold', visible(consumer))} ${visible(text)}`
  const more = [
    ...(isLoud ? [eventOf(fields)].filter((each) => each !== '') : []),
    ...errorLines(fields['err'], paint),
  ]
  const commands = isLoud ? commandsFor(fields).map((each) => paint('cyan', `→ ${each}`)) : []
  return [
    rest === '' ? head : `${head}  ${paint('dim', rest)}`,
    ...[...more, ...commands].map((each) => `    ${each}`),
  ].join('\n')
}

type Fields = LogLine['fields']

/** The lines of onceward that a person reads as a sentence. */
const TEXTS: Readonly<Record<string, (fields: Fields) => string>> = {
  [LINES.started]: ({ concurrency, queue }) => `consumes ${place(queue)}, ${concurrency} at a time`,
  [LINES.duplicates]: (fields) => {
    const { duplicates } = fields
    const last = keyOf(fields)
    return `${duplicates} ${duplicates === 1 ? 'duplicate' : 'duplicates'}${last === '' ? '' : `, last ${last}`}`
  },
  [LINES.draining]: ({ drainMs }) =>
    `draining${typeof drainMs === 'number' ? `, up to ${Math.ceil(drainMs / 1_000)} s` : ''}; Ctrl-C again ends now`,
}

const clock = (atMs: number): string => {
  const at = new Date(atMs)
  return [at.getHours(), at.getMinutes(), at.getSeconds()]
    .map((part) => String(part).padStart(2, '0'))
    .join(':')
}

/** Fields that are shown elsewhere, or say nothing to a person. */
const SHOWN = new Set([
  'consumer',
  'key',
  'keyHash',
  'eventId',
  'deadLetterId',
  'attempt',
  'source',
  'outcome',
  'reason',
  'cause',
  'err',
])

function restOf(fields: Fields): string {
  return Object.entries(fields)
    .filter(([name, value]) => !SHOWN.has(name) && value !== undefined)
    .map(
      ([name, value]) =>
        `${name}=${typeof value === 'string' ? visible(value) : inspect(isError(value) ? describeError(value) : value, { breakLength: Number.POSITIVE_INFINITY })}`,
    )
    .join(' ')
}

/** The key if the user wants it in clear, or else its hash. */
const keyOf = ({ key, keyHash }: Fields): string =>
  typeof key === 'string' ? visible(key) : typeof keyHash === 'string' ? `key #${keyHash}` : ''

function eventOf(fields: Fields): string {
  const { attempt, cause, deadLetterId, eventId, reason, source } = fields
  const { broker, queue } = Object(source) as {
    readonly broker?: unknown
    readonly queue?: unknown
  }
  return [
    keyOf(fields),
    typeof eventId === 'string' ? `event ${visible(eventId)}` : '',
    typeof deadLetterId === 'string' ? `dead letter ${visible(deadLetterId)}` : '',
    typeof attempt === 'number' && attempt > 0 ? `attempt ${attempt}` : '',
    // The text of the line says that the handler failed.
    ...[reason, cause].map((why) =>
      typeof why === 'string' && !why.endsWith('failed') ? visible(why) : '',
    ),
    typeof queue === 'string' ? `from ${place(queue)} (${visible(String(broker))})` : '',
  ]
    .filter((part) => part !== '')
    .join(', ')
}

/** The name of a queue: the last part of a URL. */
const place = (queue: unknown): string => {
  const text = String(queue)
  return visible(
    text.includes('://') ? (text.split('/').findLast((part) => part !== '') ?? text) : text,
  )
}

const MOST_CAUSES = 5

function errorLines(err: unknown, paint: Paint, depth = 0): readonly string[] {
  if (typeof err !== 'object' || err === null || depth > MOST_CAUSES) return []
  const {
    aggregateErrors = [],
    cause,
    message,
    name,
    stack,
  } = (isError(err) ? describeError(err) : err) as Readonly<Record<string, unknown>>
  const text = typeof stack === 'string' ? stack : `${String(name ?? 'Error')}: ${String(message)}`
  const inner = [cause, ...(Array.isArray(aggregateErrors) ? aggregateErrors : [])]
  return [
    ...folded(text.split('\n')).map((each) => (FRAME.test(each) ? paint('dim', each) : each)),
    ...inner.flatMap((each) =>
      errorLines(each, paint, depth + 1).map((line, index) =>
        index === 0 ? `caused by ${line}` : line,
      ),
    ),
  ]
}

const FRAME = /^\s+(?:at |… )/
/** Frames that say nothing to a user: those of Node itself, and of onceward where it is installed or linked from a clone. */
const FOREIGN = /[(\s]node:|<anonymous>|[\\/]node_modules[\\/](?:@onceward|onceward)[\\/]/
/** In a bundle, the file of this module is also that of the user's code, so there is no clone. */
const [, CLONE] = /^file:\/\/(.*\/)core\/(?:src|dist)\/support\/[^/]+$/.exec(import.meta.url) ?? []

function isForeign(frame: string): boolean {
  if (!/^\s+at /.test(frame)) return false
  const isOfClone = CLONE !== undefined && frame.includes(CLONE) && /\/(?:src|dist)\//.test(frame)
  return isOfClone || FOREIGN.test(frame)
}

/** The lines of a stack, with frames in a row that are not the user's as one. */
function folded(lines: readonly string[]): readonly string[] {
  const kept: string[] = []
  let count = 0
  const flush = (): void => {
    if (count > 0)
      kept.push(`    … ${count} ${count === 1 ? 'frame' : 'frames'} of onceward and Node`)
    count = 0
  }
  for (const line of lines) {
    if (isForeign(line)) {
      count += 1
      continue
    }
    flush()
    kept.push(visible(line))
  }
  flush()
  return kept
}

/** What a person does next about one event. */
function commandsFor({ deadLetterId, eventId, outcome }: Fields): readonly string[] {
  // A message that never became an event.
  if (typeof deadLetterId === 'string' && /^[0-9a-f-]+$/i.test(deadLetterId)) {
    const letters = 'npx onceward dead-letters'
    return [`${letters} show ${deadLetterId}`, `${letters} replay ${deadLetterId}`]
  }
  if (typeof eventId !== 'string' || !/^[0-9a-f-]+$/i.test(eventId)) return []
  switch (outcome) {
    case 'dead':
      return [`npx onceward explain --id ${eventId}`, `npx onceward dead-letters replay ${eventId}`]
    case 'failed':
    case 'conflict':
    case 'not-stored':
      return [`npx onceward explain --id ${eventId}`]
    default:
      return []
  }
}

// Texts of users and of messages are shown on a terminal, which obeys control characters.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROLS = /[\u0000-\u0008\u000a-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g
const visible = (text: string): string =>
  text.replace(CONTROLS, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
