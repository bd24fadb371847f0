/** What is kept of an error, in bytes of UTF-8. */
export const MAX_ERROR_BYTES = 8_192
/** What is kept of the key of a refused message, which may be no key at all, in bytes of UTF-8. */
const MAX_LOOSE_KEY_BYTES = 4_096
const MAX_CAUSES = 5

/**
 * Text that any Postgres column of type text takes, and that reads like the original for all but odd characters:
 * escaped as inside a JSON string, so NULs and lone surrogates survive the way back.
 */
export function escapeText(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

export function unescapeText(escaped: string): string {
  return JSON.parse(`"${escaped}"`) as string
}

/** As {@link escapeText}, of bounded size; what is cut off cannot come back. */
export function escapeLooseKey(key: string): string {
  return escapeText(cut(key, MAX_LOOSE_KEY_BYTES))
}

/** An error as readable text: its stack and causes, without NULs, of bounded size. */
export function toErrorText(error: unknown): string | undefined {
  if (error === undefined) return undefined
  const text = describe(error).replaceAll('\0', '\u2400').toWellFormed()
  return cut(text, MAX_ERROR_BYTES)
}

/** Handlers throw anything, also objects that throw when they are looked at, and causes that run in a circle. */
function describe(error: unknown, depth = 0): string {
  try {
    if (!(error instanceof Error)) return String(error)
    const own = error.stack?.includes(error.message)
      ? error.stack
      : `${error.name}: ${error.message}`
    if (error.cause === undefined || depth === MAX_CAUSES) return own
    return `${own}\ncaused by: ${describe(error.cause, depth + 1)}`
  } catch {
    return 'an error that cannot be read'
  }
}

function cut(text: string, bytes: number): string {
  if (Buffer.byteLength(text) <= bytes) return text
  // A character cut in two would come back as U+FFFD.
  return Buffer.from(text)
    .subarray(0, bytes)
    .toString()
    .replace(/\uFFFD$/, '')
}
