/**
 * Characters that a terminal would obey, or that reorder or hide text: controls, format characters of every script
 * (directional marks, zero-width characters, joiners of hieroglyphs), line and paragraph separators, lone surrogates.
 * Code points that Unicode reserves for such characters count too.
 */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Surrogate}\u2065\u{e0000}-\u{e007f}]/gu

const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

const escaped = (character: string): string =>
  SHORT[character] ?? `\\u{${character.codePointAt(0)?.toString(16)}}`

/** Text from a message, a key or an error on one line: what a terminal would obey is shown escaped. */
export function visible(text: string): string {
  return text.replace(HIDDEN, escaped)
}

/** As {@link visible}, with line feeds kept: stacks and bodies. */
export function visibleLines(text: string): string {
  return text.replaceAll('\r\n', '\n').split('\n').map(visible).join('\n')
}

/** At most so many characters of a line, with a sign that it was cut. */
export function cut(text: string, most: number): string {
  const characters = [...text.slice(0, 2 * most + 2)]
  return characters.length > most ? `${characters.slice(0, Math.max(0, most - 1)).join('')}…` : text
}

/** JSON in which no character is obeyed by a terminal. Reading it gives the same value. */
export function toJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, undefined, indent).replace(HIDDEN, (character) =>
    character === '\n' ? character : character.replace(/[\s\S]/g, unicodeEscape),
  )
}

const unicodeEscape = (unit: string): string =>
  `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`

/** The value with every text in it as {@link visibleLines} shows it. */
export function visibleDeep(value: unknown): unknown {
  if (typeof value === 'string') return visibleLines(value)
  if (Array.isArray(value)) return value.map(visibleDeep)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [visibleLines(name), visibleDeep(each)]),
  )
}
