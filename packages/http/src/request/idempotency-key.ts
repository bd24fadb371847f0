/** The name of the header in which clients send the key. */
export const KEY_HEADER = 'idempotency-key'

export type ParsedKey =
  | { readonly kind: 'key'; readonly key: string }
  | { readonly kind: 'missing' | 'repeated' | 'malformed' }

/** A String of RFC 8941: printable ASCII in double quotes; a backslash escapes only itself and the quote. */
const SF_STRING = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\[\\"])+)"$/
/** The bare form that Stripe made usual: visible ASCII. A quote at its start begins an sf-string. */
const BARE = /^[\x21\x23-\x7e][\x21-\x7e]*$/
const MOST_CHARACTERS = 255

/**
 * The key of a request: an sf-string or the bare form, 1–255 characters. Both forms of the same characters are the same
 * key, because the quotes are syntax.
 *
 * @see draft-ietf-httpapi-idempotency-key-header-07; RFC 8941 §3.3.3
 */
export function parseIdempotencyKey(values: readonly string[]): ParsedKey {
  const [value, ...others] = values
  if (value === undefined) return { kind: 'missing' }
  if (others.length > 0) return { kind: 'repeated' }
  const text = withoutBlanks(value)
  if (text === '') return { kind: 'missing' }
  const key = SF_STRING.exec(text)?.[1]?.replace(/\\(.)/g, '$1') ?? BARE.exec(text)?.[0]
  if (key === undefined || key.length > MOST_CHARACTERS) return { kind: 'malformed' }
  return { kind: 'key', key }
}

/** The optional white space of RFC 9110, at both ends. `trim` would remove more, such as a non-breaking space. */
function withoutBlanks(value: string): string {
  const isBlank = (at: number): boolean => value[at] === ' ' || value[at] === '\t'
  let [start, end] = [0, value.length]
  while (isBlank(start)) start += 1
  while (end > start && isBlank(end - 1)) end -= 1
  return value.slice(start, end)
}
