import type { ProcessUsage } from '../support/workers/process-usage.ts'

/** What an idle process holds, and when. */
export interface Sample extends ProcessUsage {
  /** Since the start, ms. */
  readonly atMs: number
}

export interface Trend {
  readonly name: keyof ProcessUsage
  /** Medians of the first and the last third of the samples, after those of the warm-up. */
  readonly first: number
  readonly last: number
  readonly perHour: number
  readonly isFlat: boolean
}

/** The first samples do not count: code is compiled then, and caches fill. */
const WARM_UP = 0.25

/**
 * How much more the last third may hold than the first. Counts vary with what a pool or a client keeps open for a
 * while. Within half an hour a leak of one per blow exceeds these limits, and so does a leak of 100 bytes per event.
 */
const ALLOWED: { readonly [Name in keyof ProcessUsage]: number } = {
  heapBytes: 4 * 2 ** 20,
  handles: 12,
  connections: 12,
  listeners: 100,
  fileDescriptors: 12,
}

const NAMES = Object.keys(ALLOWED) as readonly (keyof ProcessUsage)[]

export function trendsOf(samples: readonly Sample[]): readonly Trend[] {
  const warm = samples.slice(Math.floor(samples.length * WARM_UP))
  return NAMES.map((name) => {
    const values = warm.map((sample) => sample[name])
    const third = Math.ceil(values.length / 3)
    const [first, last] = [median(values.slice(0, third)), median(values.slice(-third))]
    const perHour = slope(
      warm.map(({ atMs }) => atMs / 3_600_000),
      values,
    )
    return { name, first, last, perHour, isFlat: last - first <= ALLOWED[name] }
  })
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

/** The slope of the least-squares line; 0 for a single point. */
function slope(xs: readonly number[], ys: readonly number[]): number {
  const mean = (values: readonly number[]): number =>
    values.reduce((sum, value) => sum + value, 0) / values.length
  const [x, y] = [mean(xs), mean(ys)]
  const spread = xs.reduce((sum, each) => sum + (each - x) ** 2, 0)
  const common = xs.reduce((sum, each, index) => sum + (each - x) * ((ys[index] ?? y) - y), 0)
  return spread === 0 ? 0 : common / spread
}
