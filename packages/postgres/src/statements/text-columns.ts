import { isError } from '@onceward/core/adapter'

/** Most bytes of UTF-8 that are stored of an error. */
export const MAX_ERROR_BYTES = 8_192
/** Most bytes of UTF-8 that are stored of the key of a refused message, which may be an invalid key. */
const MAX_LOOSE_KEY_BYTES = 4_096
const MAX_CAUSES = 5

/**
 * Text for a column of type text, escaped as inside a JSON string, so that NULs and lone surrogates can be restored.
 * Ordinary text stays readable.
 */
export function escapeText(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

export function unescapeText(escaped: string): string {
  return JSON.parse(`"${escaped}"`) as string
}

/** As {@link escapeText}, cut to a maximum size. */
export function escapeLooseKey(key: string): string {
  return escapeText(cut(key, MAX_LOOSE_KEY_BYTES))
}

/** Most characters of a text of an operator. */
const MAX_SHORT_TEXT = 500

/** A text of a person, without NULs, cut to a maximum size. */
export function toShortText(text: string | undefined): string | undefined {
  return text?.slice(0, MAX_SHORT_TEXT).replaceAll('\0', '\u2400').toWellFormed()
}

/** An error as readable text with its stack and causes, without NULs, cut to a maximum size. */
export function toErrorText(error: unknown): string | undefined {
  if (error === undefined) return undefined
  const text = describe(error).replaceAll('\0', '\u2400').toWellFormed()
  return cut(text, MAX_ERROR_BYTES)
}

/** Handlers throw anything, also errors whose causes form a cycle. */
function describe(error: unknown, depth = 0): string {
  if (!isError(error)) return beginning(String(error), MAX_ERROR_BYTES)
  const own = ownText(error)
  if (error.cause === undefined || depth === MAX_CAUSES) return own
  return `${own}\ncaused by: ${describe(error.cause, depth + 1)}`
}

/** Stacks mostly begin with name and message. A message may be of any length, so no part is looked at whole. */
function ownText({ message, name, stack }: Error): string {
  const begun = beginning(String(message), MAX_ERROR_BYTES)
  if (typeof stack === 'string' && beginning(stack, 2 * MAX_ERROR_BYTES).includes(begun)) {
    return beginning(stack, MAX_ERROR_BYTES)
  }
  return `${beginning(String(name), MAX_ERROR_BYTES)}: ${begun}`
}

/** Enough of a text for so many bytes, and one character more if it is longer: in UTF-8 each takes a byte at least. */
const beginning = (text: string, bytes: number): string => text.slice(0, bytes + 1)

function cut(whole: string, bytes: number): string {
  const text = beginning(whole, bytes)
  if (Buffer.byteLength(text) <= bytes) return text
  // A character cut in two would come back as U+FFFD.
  return Buffer.from(text)
    .subarray(0, bytes)
    .toString()
    .replace(/\uFFFD$/, '')
}
