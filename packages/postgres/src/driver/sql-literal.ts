/** A parameter of a statement of onceward: text that the statement casts. */
export type Parameter = string | null | undefined

/** A value as a literal that is correct with any `standard_conforming_strings`. */
export function literal(value: Parameter): string {
  if (value === null || value === undefined) return 'null'
  const quoted = `'${value.replaceAll("'", "''")}'`
  return value.includes('\\') ? ` E${quoted.replaceAll('\\', '\\\\')}` : quoted
}

/** Matches parameters, and quoted names and strings, which stay unchanged. One with a doubled quote is two in a row. */
const PARAMETER = /"[^"]*"|'[^']*'|\$(\d+)/g

/** A statement with its parameters as literals. A text of several statements takes no parameters. */
export function inline(text: string, values: readonly unknown[] = []): string {
  return text.replaceAll(PARAMETER, (found, number: string | undefined) =>
    number === undefined ? found : literal(values[Number(number) - 1] as Parameter),
  )
}
