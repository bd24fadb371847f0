import { AnswerError } from './answer-error.ts'

export type HeaderList = readonly (readonly [name: string, value: string])[]

/** The headers of an answer as a handler may write them. */
export type GivenHeaders =
  | Headers
  | Readonly<Record<string, string | number | readonly string[] | undefined>>
  | undefined

const NAME = /^[!#$%&'*+.^_`|~0-9a-zA-Z-]+$/
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
/** The server writes them itself. HTTP/2 has no headers of the connection, and Node throws for them there. */
const OF_THE_CONNECTION = [
  'connection',
  'content-length',
  'date',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'te',
  // Node throws for it when it writes an answer of known length.
  'trailer',
  'transfer-encoding',
  'upgrade',
]

/**
 * The headers of an answer as they are written: lower-case names, one entry each, except cookies. A header that a server
 * would refuse to write is refused here, before anything is committed.
 *
 * @throws {@link AnswerError}
 */
export function listed(headers: GivenHeaders): HeaderList {
  if (headers === undefined) return []
  // Entries of a Map would be lost without a word, and pairs would get their index as their name.
  if (
    typeof headers !== 'object' ||
    headers === null ||
    Symbol.iterator in headers !== isHeaders(headers)
  ) {
    throw new AnswerError(
      'Expected `headers` of the answer to be an object of names and values, or Headers.',
    )
  }
  const pairs: readonly (readonly [string, unknown])[] = isHeaders(headers)
    ? [...headers]
    : Object.entries(headers).flatMap(([name, value]) =>
        Array.isArray(value) ? value.map((each) => [name, each] as const) : [[name, value]],
      )
  const list = pairs.flatMap(([name, value]) =>
    value === undefined ? [] : [checkedHeader(name.toLowerCase(), value)],
  )
  return merged(list.filter(([name]) => !OF_THE_CONNECTION.includes(name)))
}

const isHeaders = (headers: object): headers is Headers =>
  typeof Reflect.get(headers, 'getSetCookie') === 'function'

function checkedHeader(name: string, value: unknown): readonly [string, string] {
  const isText = typeof value === 'string' || typeof value === 'number'
  if (isText && NAME.test(name) && VALUE.test(String(value))) return [name, String(value)]
  throw new AnswerError(
    `The header "${name.slice(0, 50).replace(/[^\x20-\x7e]/g, '?')}" of the answer cannot be sent. Its value must be a text of visible Latin-1 characters; encode others, for example with encodeURI.`,
  )
}

/** A repeated header is one, with its values joined. Only cookies stay apart. */
function merged(list: HeaderList): HeaderList {
  const one = new Map<string, string>()
  for (const [name, value] of list) {
    if (name === 'set-cookie') continue
    const before = one.get(name)
    one.set(name, before === undefined ? value : `${before}, ${value}`)
  }
  return [...one, ...list.filter(([name]) => name === 'set-cookie')]
}
