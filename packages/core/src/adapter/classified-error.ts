import { type ErrorCode, OncewardError } from '../model/errors.ts'

/** What a failed call means; `classifyError` of each adapter answers it. */
export interface ClassifiedError<Kind extends string> {
  readonly kind: Kind
  /** For logs and `health().reason`: one line. */
  readonly text: string
}

/** Longest text of an error, characters: a client may put a whole answer into its message. */
const LONGEST_TEXT = 2_000

/** Makes a classifier whose texts are bounded and of one line. */
export function classifierOf<Kind extends string>(
  classify: (error: unknown) => ClassifiedError<Kind>,
): (error: unknown) => ClassifiedError<Kind> {
  return (error) => {
    const { kind, text } = classify(error)
    const bounded = text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}…` : text
    return { kind, text: inOneLine(bounded) }
  }
}

function inOneLine(text: string): string {
  const lines = text.split(/[\r\n]/)
  if (lines.length === 1) return text
  const filled = lines.map((line) => line.trim()).filter((line) => line !== '')
  return filled.join(' ')
}

/** Codes of sockets: the server cannot be reached now. */
export const NETWORK_CODES: readonly string[] = [
  ...['ECONNREFUSED', 'ECONNRESET', 'EHOSTUNREACH', 'ENETUNREACH'],
  ...['ENOTFOUND', 'EAI_AGAIN', 'EPIPE', 'ETIMEDOUT'],
]

/** Inverts a table of the names that mean one kind. */
export function kindsByName<Kind extends string>(
  names: Readonly<Record<Kind, readonly string[]>>,
): ReadonlyMap<string, Kind> {
  const kinds = Object.entries(names) as [Kind, readonly string[]][]
  return new Map(kinds.flatMap(([kind, each]) => each.map((name) => [name, kind] as const)))
}

export const isStoreDown = (error: unknown): boolean =>
  OncewardError.is(error) && error.code === 'ONCEWARD_STORE_UNAVAILABLE'

const RETRIED: readonly ErrorCode[] = ['ONCEWARD_RETRYABLE', 'ONCEWARD_PAUSED']

/** An error that no retry fixes, such as a mistake in the configuration. The user's functions may ask for a retry. */
export const isFatal = (error: unknown): error is OncewardError =>
  OncewardError.is(error) && !isStoreDown(error) && !RETRIED.includes(error.code)
