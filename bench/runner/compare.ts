import { readFileSync } from 'node:fs'
import { type Benchmark, shown } from './report.ts'

/** What `--json` printed at the end of an earlier run. */
export interface Earlier {
  /** Undefined in output of older commits. */
  readonly machine?: string | undefined
  readonly benchmarks: readonly Pick<Benchmark, 'name' | 'values' | 'ratios'>[]
}

/** @throws TypeError if the file does not end with that line. */
export function readEarlier(file: string): Earlier {
  const line = readFileSync(file, 'utf8').trimEnd().split('\n').at(-1) ?? ''
  try {
    const earlier = JSON.parse(line) as Partial<Earlier> | null
    if (Array.isArray(earlier?.benchmarks)) return earlier as Earlier
  } catch {
    // Said below.
  }
  throw new TypeError(`${file} does not end with the line that --json prints`)
}

/** What changed since an earlier run: each figure before, after, and the change in percent. */
export function changes(before: Earlier['benchmarks'][number], after: Benchmark): string {
  const figures = { ...after.values, ...prefixed(after.ratios) }
  const earlier = { ...before.values, ...prefixed(before.ratios) }
  const names = Object.keys(figures).filter((name) => name in earlier)
  const width = Math.max(...names.map((name) => name.length), after.name.length)
  const row = (label: string, cells: readonly string[]): string =>
    [label.padEnd(width), ...cells.map((cell) => cell.padStart(12))].join('')
  return [
    row(after.name, ['before', 'after', 'change']),
    ...names.map((name) => {
      const [was = Number.NaN, is = Number.NaN] = [earlier[name], figures[name]]
      return row(name, [shown(was), shown(is), percent(is / was - 1)])
    }),
  ].join('\n')
}

function prefixed(ratios: Readonly<Record<string, number>>): Readonly<Record<string, number>> {
  return Object.fromEntries(Object.entries(ratios).map(([name, value]) => [`ratio ${name}`, value]))
}

function percent(share: number): string {
  if (!Number.isFinite(share)) return '–'
  const rounded = Math.round(share * 100)
  return `${rounded > 0 ? '+' : ''}${rounded} %`
}
