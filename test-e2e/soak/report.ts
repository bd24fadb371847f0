import type { SoakReport, SoakResult } from './run.ts'
import type { Trend } from './trend.ts'

/** Events that went wrong, a process that ended, what was said on standard error. */
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

/** What a worker has gathered. Says nothing of a handful of cycles, in which code is compiled and caches fill up. */
export const growthOf = ({ broker, trends }: SoakResult): readonly string[] =>
  trends
    .filter(({ isFlat }) => !isFlat)
    .map(({ name, first, last }) => `${broker}: ${name} grew from ${first} to ${last}`)

/** A line for each broker and measure. */
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
