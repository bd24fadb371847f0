import { visible } from './visible.ts'

/** Columns with two spaces between them, aligned to the left; the last one is not padded. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, ...rows].map((row) => row.map(visible))
  const widths = head.map((_, column) =>
    lines.reduce((widest, row) => Math.max(widest, row[column]?.length ?? 0), 0),
  )
  return lines
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
