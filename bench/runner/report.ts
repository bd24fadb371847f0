import { cpus, totalmem } from 'node:os'

export interface Benchmark {
  readonly name: string
  readonly unit: string
  readonly values: Readonly<Record<string, number>>
  readonly ratios: Readonly<Record<string, number>>
  /** The least or the most that the README promises of a ratio or value. */
  readonly goals: readonly Goal[]
}

export interface Goal {
  readonly name: string
  readonly least?: number | undefined
  readonly most?: number | undefined
}

const WIDTH = 34

export function machine(): string {
  const gigabytes = Math.round(totalmem() / 2 ** 30)
  return `Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model ?? process.arch}, ${gigabytes} GiB`
}

export function tables({ name, unit, values, ratios, goals }: Benchmark): string {
  const figures = { ...values, ...ratios }
  return [
    `${name} (${unit} unless its name says otherwise, medians)`,
    '─'.repeat(WIDTH + 30),
    ...Object.entries(values).map(([key, value]) => row(key, value)),
    '',
    ...Object.entries(ratios).map(([key, ratio]) => row(`ratio ${key}`, ratio)),
    '',
    ...goals.map((goal) => verdict(goal, figures[goal.name] ?? Number.NaN)),
  ].join('\n')
}

function row(label: string, value: number): string {
  return `${label.padEnd(WIDTH)}${shown(value).padStart(14)}`
}

function verdict({ name, least, most }: Goal, value: number): string {
  const met =
    value >= (least ?? Number.NEGATIVE_INFINITY) && value <= (most ?? Number.POSITIVE_INFINITY)
  const wanted = least === undefined ? `≤ ${most}` : `≥ ${least}`
  return `${met ? 'met   ' : 'MISSED'} ${name} ${shown(value)}, wanted ${wanted}`
}

export function shown(value: number): string {
  return Math.abs(value) >= 100 ? Math.round(value).toLocaleString('en') : value.toFixed(2)
}

export function toJson(benchmarks: readonly Benchmark[]): string {
  return JSON.stringify({
    machine: machine(),
    benchmarks: benchmarks.map(({ name, unit, values, ratios }) => ({
      name,
      unit,
      values,
      ratios,
    })),
  })
}
