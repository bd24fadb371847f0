import type { SoakReport, SoakResult } from './run.ts'
import type { Trend } from './trend.ts'

/** Wrong events, a worker that ended by itself, and output on standard error. */
export function findingsOf(result: SoakResult): readonly string[] {
  const { broker, lost, doubled, wrongDead, stderr, isAlive } = result
  const wrong = Object.entries({ lost, doubled, wrongDead })
    .filter(([, ids]) => ids.length > 0)
    .map(([what, ids]) => `${broker}: ${ids.length} ${what}: ${ids.slice(0, 5).join(', ')}`)
  return [
    ...wrong,
    ...(isAlive ? [] : [`${broker}: the worker ended by itself`]),
    ...(stderr === '' ? [] : [`${broker}: on standard error: ${stderr.slice(0, 2_000)}`]),
  ]
}

/** What grew. After a handful of cycles, in which code is compiled and caches fill, this means nothing. */
export const growthOf = ({ broker, trends }: SoakResult): readonly string[] =>
  trends
    .filter(({ isFlat }) => !isFlat)
    .map(({ name, first, last }) => `${broker}: ${name} grew from ${first} to ${last}`)

/** A table with a line for each broker and measure. */
export function tableOf({ results }: SoakReport): string {
  return results
    .flatMap(({ broker, trends }) => trends.map((trend) => rowOf(broker, trend)))
    .join('\n')
}

function rowOf(broker: string, { name, first, last, perHour }: Trend): string {
  const shown = (value: number): string =>
    name === 'heapBytes' ? `${(value / 2 ** 20).toFixed(2)} MiB` : value.toFixed(1)
  const cells = [shown(first), shown(last), `${shown(perHour)} per hour`]
  return [broker.padEnd(8), name.padEnd(16), ...cells.map((cell) => cell.padStart(20))].join('')
}
