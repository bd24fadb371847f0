import type { StandardSchemaV1 } from '@standard-schema/spec'
import { isThenable, type MaybeAsync } from '../concurrency/maybe-async.ts'
import { InvalidPayloadError } from '../model/errors.ts'
import { WrongAnswerError } from '../options/wrong-answer.ts'

const ISSUES_NAMED = 5
/** Longest message and longest place of an issue that an error names. Schemas may make them of the payload. */
const LONGEST_MESSAGE = 200
/** Longest message that is searched for values of the payload. Longer ones are not shown at all. */
const LONGEST_SEARCHED = 10_000
const LONGEST_PLACE = 100
/** Most segments of a place that are read. Each has its dot at least, so the text of so many is cut anyway. */
const LONGEST_PATH = 200

/**
 * Returns the payload with the schema's defaults and transforms applied.
 *
 * @throws {@link InvalidPayloadError} with the first issues and their places, without values of the payload.
 * @throws {@link WrongAnswerError} for an answer that is not a result of a Standard Schema.
 * @see https://standardschema.dev
 */
export function validate<Payload>(
  schema: StandardSchemaV1<unknown, Payload>,
  value: unknown,
): MaybeAsync<Payload> {
  const result = schema['~standard'].validate(value)
  return isThenable(result)
    ? Promise.resolve(result).then((late) => toPayload(late, value))
    : toPayload(result, value)
}

function toPayload<Payload>(result: StandardSchemaV1.Result<Payload>, payload: unknown): Payload {
  if (typeof result !== 'object' || result === null) throw new WrongAnswerError('schema', result)
  const { issues } = result
  if ((issues === undefined || issues === null) && 'value' in result) return result.value
  if (!Array.isArray(issues)) throw new WrongAnswerError('schema', result)
  const count = issues.length
  const named = Array.from({ length: Math.min(count, ISSUES_NAMED) }, (_, index) =>
    toSentence(issues, index, payload),
  )
  const rest = count > named.length ? ` (and ${count - named.length} more)` : ''
  throw new InvalidPayloadError(`The payload does not fit the schema: ${named.join('; ')}${rest}`)
}

/** A schema's library made the issue, so every part of it may be of any type. */
function toSentence(issues: readonly unknown[], index: number, payload: unknown): string {
  const { message, path } = Object(issues[index]) as Partial<Readonly<Record<string, unknown>>>
  const text = toMessage(message, payload)
  const segments: readonly unknown[] = Array.isArray(path) ? path.slice(0, LONGEST_PATH) : []
  const place = cut(segments.map(toSegment).join('.'), LONGEST_PLACE)
  return place === '' ? text : `${place}: ${text}`
}

function toMessage(message: unknown, payload: unknown): string {
  if (typeof message !== 'string') return 'no message'
  if (message.length > LONGEST_SEARCHED) return `a message of ${message.length} characters`
  return cut(withoutValuesOf(payload, message), LONGEST_MESSAGE)
}

function toSegment(segment: unknown): string {
  const isObject = typeof segment === 'object' && segment !== null
  const key: unknown = isObject ? Reflect.get(segment, 'key') : segment
  return ['string', 'number', 'symbol'].includes(typeof key) ? String(key) : '?'
}

const cut = (text: string, most: number): string =>
  text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text

/** Values of a payload that are looked for in an error text. */
const MOST_VALUES = 2_000
/** Shorter values are in every text by chance, and reveal nothing. */
const SHORTEST_VALUE = 4

/**
 * The text with every value of the payload that it contains replaced. Schemas like to say what they received, and the
 * error text goes to logs and dead letters.
 */
export function withoutValuesOf(payload: unknown, text: string): string {
  let clean = text
  for (const value of longestFirst(valuesIn(payload))) clean = clean.replaceAll(value, '…')
  return clean
}

const longestFirst = (values: ReadonlySet<string>): readonly string[] =>
  [...values].sort((a, b) => b.length - a.length)

function valuesIn(payload: unknown): ReadonlySet<string> {
  const values = new Set<string>()
  const open: unknown[] = [payload]
  for (let seen = 0; open.length > 0 && seen < MOST_VALUES; seen++) {
    const value = open.pop()
    if (typeof value === 'object' && value !== null) {
      open.push(...Object.values(value).slice(0, MOST_VALUES - seen))
      continue
    }
    if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'bigint')
      continue
    for (const text of [String(value), JSON.stringify(String(value)).slice(1, -1)]) {
      if (text.length >= SHORTEST_VALUE) values.add(text)
    }
  }
  return values
}
