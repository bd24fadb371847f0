import { setTimeout as sleep } from 'node:timers/promises'
import { median } from '../runner/rounds.ts'

/** How long events took, ms. */
export interface Waits {
  readonly p50: number
  readonly p99: number
}

export function waitsOf(times: readonly number[]): Waits {
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number): number => sorted[Math.floor(sorted.length * share)] ?? Number.NaN
  return { p50: at(0.5), p99: at(0.99) }
}

/** The medians of several rounds. */
export function medianWaits(rounds: readonly Waits[]): Waits {
  return { p50: median(rounds.map(({ p50 }) => p50)), p99: median(rounds.map(({ p99 }) => p99)) }
}

/**
 * Starts events at a rate, whatever becomes of those before: events that wait do not keep others from coming. They come
 * in small bursts, because a timer wakes once a millisecond.
 *
 * @param rate - Events per second.
 */
export async function atRate<Item>(
  items: readonly Item[],
  rate: number,
  work: (item: Item) => Promise<void>,
): Promise<Waits> {
  const times: number[] = []
  const running: Promise<void>[] = []
  const startedAt = performance.now()
  for (let next = 0; next < items.length; await sleep(1)) {
    const due = Math.min(items.length, ((performance.now() - startedAt) * rate) / 1_000)
    for (; next < due; next++) {
      const cameAt = performance.now()
      const done = work(items[next] as Item)
      running.push(done.then(() => void times.push(performance.now() - cameAt)))
    }
  }
  await Promise.all(running)
  return waitsOf(times)
}
