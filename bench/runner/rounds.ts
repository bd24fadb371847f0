import type { ProcessorMeter, ProcessorTime } from './processor-time.ts'

/** Events or batches in flight, and connections for them. */
export const CONCURRENCY = 16

/** One way to do the work. `prepare` does the set-up that is not timed. */
export interface Contestant {
  readonly name: string
  /**
   * Prepares a round and returns the work that is timed. Work that measures its own time resolves with it, in
   * milliseconds. Any other result is ignored.
   */
  prepare(events: number): Promise<() => Promise<unknown>>
  /** A multiple of the events of a round, so that rounds of fast contestants last long enough. */
  readonly factor?: number | undefined
}

/** Rates and costs of each contestant, by round. */
export interface Rounds {
  /** Events per second. */
  readonly rates: ReadonlyMap<string, readonly number[]>
  /** Processor time of an event. */
  readonly costs: ReadonlyMap<string, readonly ProcessorTime[]>
}

/** How much of each contestant is measured. */
export interface Size {
  /** Those that count. */
  readonly rounds: number
  /** Events of a round. */
  readonly events: number
  /** Events in whole rounds that do not count. Default: one round. */
  readonly warmUp?: number | undefined
}

/**
 * As {@link alternate}, with the processor time of each event.
 *
 * @param meterOf - The meter of each contestant.
 */
export async function alternateMetered(
  contestants: readonly Contestant[],
  size: Size,
  meterOf: (name: string) => ProcessorMeter,
): Promise<Rounds> {
  const costs = new Map<string, ProcessorTime[]>(contestants.map(({ name }) => [name, []]))
  const metered = contestants.map((contestant) => ({
    ...contestant,
    prepare: async (events: number) => {
      const timed = await contestant.prepare(events)
      const meter = meterOf(contestant.name)
      return async (): Promise<unknown> => {
        const before = meter.read()
        const took = await timed()
        const after = meter.read()
        const perEvent = (kind: keyof ProcessorTime): number =>
          (after[kind] - before[kind]) / events
        const cost = { user: perEvent('user'), system: perEvent('system') }
        costs.get(contestant.name)?.push({ ...cost, server: perEvent('server') })
        return took
      }
    },
  }))
  const rates = await alternate(metered, size)
  const counted = [...costs].map(([name, all]) => [name, all.slice(-size.rounds)] as const)
  return { rates, costs: new Map(counted) }
}

/**
 * Events per second of each contestant, by round. Contestants take turns, so that a machine that gets slower or
 * faster affects all of them. The first rounds warm up and do not count: V8 compiles code by and by.
 */
export async function alternate(
  contestants: readonly Contestant[],
  { rounds, events, warmUp = events }: Size,
): Promise<ReadonlyMap<string, readonly number[]>> {
  const rates = new Map<string, number[]>(contestants.map(({ name }) => [name, []]))
  const warmUps = Math.max(1, Math.ceil(warmUp / events))
  for (let round = 0; round < warmUps + rounds; round++) {
    const order = round % 2 === 0 ? contestants : contestants.toReversed()
    for (const { name, prepare, factor = 1 } of order) {
      const count = events * factor
      const timed = await prepare(count)
      const startedAt = performance.now()
      const took = await timed()
      const tookMs = typeof took === 'number' ? took : performance.now() - startedAt
      const rate = (count * 1_000) / tookMs
      if (round >= warmUps) rates.get(name)?.push(rate)
    }
  }
  return rates
}

/** Median processor times of an event by contestant, µs, for the table of a benchmark. */
export function processorTimes(costs: Rounds['costs']): Readonly<Record<string, number>> {
  const kinds = ['user', 'system', 'server'] as const
  const values = [...costs].flatMap(([name, rounds]) =>
    kinds.map((kind) => {
      const label = kind === 'server' ? 'server' : `client ${kind}`
      return [`${name} ${label} µs`, median(rounds.map((cost) => cost[kind]))] as const
    }),
  )
  return Object.fromEntries(values)
}

/** Runs `work` for every item, `width` at a time. */
export async function inLanes<Item>(
  items: Iterable<Item>,
  width: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const iterator = items[Symbol.iterator]()
  const lane = async (): Promise<void> => {
    for (let next = iterator.next(); !next.done; next = iterator.next()) await work(next.value)
  }
  await Promise.all(Array.from({ length: width }, lane))
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const [low = Number.NaN, high = Number.NaN] = [
    sorted[sorted.length % 2 === 0 ? middle - 1 : middle],
    sorted[middle],
  ]
  return (low + high) / 2
}

/** The median of the ratios of each round, which neither slow nor fast rounds distort. */
export function ratioOf(
  rates: ReadonlyMap<string, readonly number[]>,
  name: string,
  base: string,
): number {
  const bases = rates.get(base) ?? []
  return median((rates.get(name) ?? []).map((rate, round) => rate / (bases[round] ?? Number.NaN)))
}
