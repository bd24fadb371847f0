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
