import { type Contestant, median } from '../runner/rounds.ts'
import { type Entrant, ordersOf, type Run, startRun } from './handed.ts'

/** Milliseconds from the delivery to the commit of the effect, one figure for each round. */
export class Latencies {
  readonly #rounds = new Map<string, { readonly p50: number[]; readonly p99: number[] }>()

  async note(name: string, run: Run): Promise<void> {
    const sorted = (await run.latencies()).toSorted((a, b) => a - b)
    const at = (share: number): number => sorted[Math.floor(sorted.length * share)] ?? Number.NaN
    const { p50, p99 } = this.#rounds.get(name) ?? { p50: [], p99: [] }
    this.#rounds.set(name, { p50: [...p50, at(0.5)], p99: [...p99, at(0.99)] })
  }

  /** Medians of the last rounds: the ones before warm up. */
  of(name: string, rounds: number): { readonly p50: number; readonly p99: number } {
    const { p50 = [], p99 = [] } = this.#rounds.get(name) ?? {}
    return { p50: median(p50.slice(-rounds)), p99: median(p99.slice(-rounds)) }
  }
}

/** The time of a round that did not end: 0 events per second. */
const NEVER = Number.POSITIVE_INFINITY

/** A stuck contestant must not end the run of the others. */
function stuck(error: unknown): undefined {
  console.log(`stuck: ${error instanceof Error ? error.message : error}`)
}

/** New events. */
export function fresh(entrant: Entrant, latencies: Latencies): Contestant {
  const { name, factor } = entrant.rival
  return {
    name,
    factor,
    prepare: async (events) => {
      const run = await startRun(entrant).catch(stuck)
      return async () => {
        if (run === undefined) return NEVER
        await using timed = run
        const tookMs = await timed.deliver(ordersOf(events), events).catch(stuck)
        if (tookMs === undefined) return NEVER
        await latencies.note(name, timed)
        return tookMs
      }
    },
  }
}

/** Every second message is a copy of an event that was processed before. */
export function halfDuplicates(entrant: Entrant): Contestant {
  const { name, factor } = entrant.rival
  return {
    name,
    factor,
    prepare: async (events) => {
      const run = await startRun(entrant).catch(stuck)
      const done = ordersOf(events / 2)
      await run?.deliver(done, done.length).catch(stuck)
      const both = ordersOf(events / 2).flatMap((order, index) => [order, done[index] ?? order])
      return async () => {
        if (run === undefined) return NEVER
        await using timed = run
        return (await timed.deliver(both, events / 2).catch(stuck)) ?? NEVER
      }
    },
  }
}
