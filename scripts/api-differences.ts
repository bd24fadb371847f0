import { diff } from 'node:util'

/** Reports by file name. */
export type Reports = ReadonlyMap<string, string>

const SIGNS = { '-1': '-', 0: ' ', 1: '+' } as const
const CONTEXT_LINES = 3

/** The lines that differ, each with a few lines around it. */
function changedLines(before: string, after: string): string {
  // `diff` counts as added what its first argument alone has.
  const lines = diff(after.split('\n'), before.split('\n'))
  const isNear = lines.map((_line, index) =>
    lines
      .slice(Math.max(0, index - CONTEXT_LINES), index + CONTEXT_LINES + 1)
      .some(([operation]) => operation !== 0),
  )
  return lines
    .flatMap(([operation, text], index) => {
      if (isNear[index]) return [SIGNS[operation] + text]
      return isNear[index - 1] ? ['…'] : []
    })
    .join('\n')
}

/** What the reports say otherwise than the surface is, and what to do about it; `''` when they agree. */
export function differences(reports: Reports, surface: Reports): string {
  const files = [...new Set([...reports.keys(), ...surface.keys()])].toSorted()
  const parts = files
    .filter((file) => reports.get(file) !== surface.get(file))
    .map((file) => `api/${file}\n${changedLines(reports.get(file) ?? '', surface.get(file) ?? '')}`)
  if (parts.length === 0) return ''
  const remedy =
    'The public surface differs from its reports in `api/`. If you meant to change it, run `npm run api` and commit the reports.'
  return [...parts, remedy].join('\n\n')
}
