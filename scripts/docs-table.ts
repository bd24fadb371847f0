/** A table of Markdown as the formatter leaves it; cells hold Markdown themselves, bars are escaped here. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, ...rows].map((cells) => cells.map((cell) => cell.replaceAll('|', '\\|')))
  const widths = head.map((_, column) =>
    Math.max(3, ...lines.map((cells) => widthOf(cells[column] ?? ''))),
  )
  const [first = '', ...others] = lines.map((cells) =>
    line(cells.map((cell, column) => cell + ' '.repeat((widths[column] ?? 0) - widthOf(cell)))),
  )
  return [first, line(widths.map((width) => '-'.repeat(width))), ...others].join('\n')
}

const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
const widthOf = (text: string): number => [...text].length

export const code = (text: string): string => `\`${text}\``

const LONG_UNITS: readonly (readonly [number, string])[] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1_000, 's'],
]

/** `1296000000` as `1296000000 (15 d)`. */
export function withDuration(ms: number): string {
  const found = LONG_UNITS.find(([unit]) => ms >= unit && ms % unit === 0)
  return found === undefined
    ? code(String(ms))
    : `${code(String(ms))} (${ms / found[0]} ${found[1]})`
}
