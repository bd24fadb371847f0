/** A parameter as our statements take them: text, cast inside the statement. */
export type Parameter = string | null | undefined

/** A value as a literal that means the same whatever `standard_conforming_strings` is. */
export function literal(value: Parameter): string {
  if (value === null || value === undefined) return 'null'
  const quoted = `'${value.replaceAll("'", "''")}'`
  return value.includes('\\') ? ` E${quoted.replaceAll('\\', '\\\\')}` : quoted
}

/** Quoted names and strings, which stay as they are, and parameters. */
const PARAMETER = /"(?:[^"]|"")*"|'(?:[^']|'')*'|\$(\d+)/g

/** A statement of ours with its parameters written into it, for texts of several statements, which take none. */
export function inline(text: string, values: readonly unknown[] = []): string {
  return text.replaceAll(PARAMETER, (found, number: string | undefined) =>
    number === undefined ? found : literal(values[Number(number) - 1] as Parameter),
  )
}
