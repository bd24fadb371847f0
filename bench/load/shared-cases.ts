import { setTimeout as sleep } from 'node:timers/promises'
import { createGuard, type Guard, type GuardEvent, type Settlement } from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import type { Pool, PoolClient } from 'pg'
import type { Benchmark } from '../runner/report.ts'
import {
  alternate,
  CONCURRENCY,
  type Contestant,
  inLanes,
  median,
  ratioOf,
} from '../runner/rounds.ts'
import type { Scale } from '../runner/scale.ts'
import { type Order, toDelivery, write } from './effects.ts'
import { atRate, medianWaits, type Waits, waitsOf } from './waits.ts'

type Handler = (event: GuardEvent<Order>, context: { readonly tx: PoolClient }) => Promise<void>

interface Case {
  readonly handler: Handler
  /** Slow handlers get fewer events. */
  readonly share: number
  readonly isFailing?: boolean
}

/** @param one - Of so many events one fails, in its first attempt. */
function failing(one: number): Handler {
  let count = 0
  return async ({ payload }, { tx }) => {
    await write(tx, payload)
    count += 1
    if (count % one === 0) throw new Error('this one fails')
  }
}

const waiting =
  (ms: number): Handler =>
  async ({ payload }, { tx }) => {
    await sleep(ms)
    await write(tx, payload)
  }

/** Where sharing costs more than it saves, if it is not noticed. */
const CASES: Readonly<Record<string, Case>> = {
  small: { handler: ({ payload }, { tx }) => write(tx, payload), share: 1 },
  '1 ms': { handler: waiting(1), share: 1 },
  '10 ms': { handler: waiting(10), share: 4 },
  '100 ms': { handler: waiting(100), share: 20 },
  'hot row': {
    share: 2,
    handler: async ({ payload }, { tx }) => {
      await write(tx, payload)
      await tx.query('update hot set times = times + 1')
    },
  },
  '2 % fail': { handler: failing(50), share: 2, isFailing: true },
  '20 % fail': { handler: failing(5), share: 4, isFailing: true },
}

export interface SharedCases {
  /** p50 and p99 in milliseconds, with as many in hand as there are transactions. */
  readonly values: Readonly<Record<string, number>>
  /** Of `each`, by case. */
  readonly ratios: Readonly<Record<string, number>>
  readonly goals: Benchmark['goals']
}

/** `transaction: 'auto'` beside `each`, with handlers that are slow, compete or fail. */
export async function measureSharedCases(
  pool: Pool,
  connectionString: string,
  scale: Scale,
): Promise<SharedCases> {
  await pool.query('create table hot (times int not null); insert into hot values (0)')
  const values: Record<string, number> = {}
  const ratios: Record<string, number> = {}
  const goals: Benchmark['goals'][number][] = []
  for (const [name, { handler, isFailing = false, share }] of Object.entries(CASES)) {
    const guards: Guard[] = []
    const contestant = async (transaction: 'each' | 'auto'): Promise<Contestant> => {
      const schema = `bench_${transaction}_${guards.length}_${name.replaceAll(/\W+/g, '_')}`
      await migrate(pool, { schema })
      const inbox = pgInbox({ connectionString, idleTimeoutMillis: 0 }, { schema })
      const guard = createGuard(
        { consumer: schema, inbox, transaction, concurrency: CONCURRENCY, logger: SILENT },
        handler,
      )
      guards.push(guard)
      return timed(`${transaction} ${name}`, { guard, isFailing, values })
    }
    const all = [await contestant('each'), await contestant('auto')]
    const events = Math.ceil(scale.events / share)
    const rates = await alternate(all, { rounds: scale.rounds, events, warmUp: events })
    for (const [of, round] of rates) values[of] = median(round)
    ratios[`auto ${name}`] = ratioOf(rates, `auto ${name}`, `each ${name}`)
    goals.push({ name: `auto ${name}`, least: 0.98 })
    const rate = (values[`each ${name}`] ?? Number.NaN) / 2
    const half = await atHalfLoad(guards, { rate, events, isFailing, rounds: scale.rounds })
    for (const [n, mode] of (['each', 'auto'] as const).entries()) {
      values[`${mode} ${name}, half load, p50 ms`] = half[n]?.p50 ?? Number.NaN
      values[`${mode} ${name}, half load, p99 ms`] = half[n]?.p99 ?? Number.NaN
    }
    for (const load of [', half load,', ''])
      ratios[`auto ${name}${load} p50`] =
        (values[`auto ${name}${load} p50 ms`] ?? Number.NaN) /
        (values[`each ${name}${load} p50 ms`] ?? Number.NaN)
    for (const load of [', half load,', ''])
      goals.push({ name: `auto ${name}${load} p50`, most: 1 })
    await Promise.all(guards.map((guard) => guard.close()))
  }
  return { values, ratios, goals }
}

const nothing = (): void => undefined
const SILENT = { debug: nothing, info: nothing, warn: nothing, error: nothing }

interface Timed {
  readonly guard: Guard
  readonly isFailing: boolean
  readonly values: Record<string, number>
}

/** Rounds whose waits count. */
const COUNTED = 5

interface HalfLoad {
  /** Events per second: half of what `each` carries. */
  readonly rate: number
  readonly events: number
  readonly isFailing: boolean
  readonly rounds: number
}

async function atHalfLoad(
  guards: readonly Guard[],
  { events, isFailing, rate, rounds }: HalfLoad,
): Promise<readonly Waits[]> {
  const waits = guards.map((): Waits[] => [])
  for (let round = 0; round < rounds; round++) {
    for (const [n, guard] of guards.entries()) {
      const deliveries = Array.from({ length: events }, toDelivery)
      const took = await atRate(deliveries, rate, async (delivery) =>
        check(await guard.process(delivery), isFailing),
      )
      waits[n]?.push(took)
    }
  }
  return waits.map(medianWaits)
}

/** Notes how long the events of its last rounds took, from delivery to settlement: the median of the rounds. */
export function timed(name: string, { guard, isFailing, values }: Timed): Contestant {
  const rounds: Waits[] = []
  return {
    name,
    prepare: async (events) => {
      const deliveries = Array.from({ length: events }, toDelivery)
      return async () => {
        const times: number[] = []
        await inLanes(deliveries, CONCURRENCY, async (delivery) => {
          const startedAt = performance.now()
          const settlement = await guard.process(delivery)
          times.push(performance.now() - startedAt)
          check(settlement, isFailing)
        })
        rounds.push(waitsOf(times))
        const { p50, p99 } = medianWaits(rounds.slice(-COUNTED))
        values[`${name} p50 ms`] = p50
        values[`${name} p99 ms`] = p99
      }
    },
  }
}

function check(settlement: Settlement, isFailing: boolean): void {
  if (settlement.kind === 'ack' && settlement.by === 'processed') return
  if (isFailing && settlement.kind === 'defer' && settlement.reason === 'failed') return
  throw new Error(`expected processed, got ${JSON.stringify(settlement)}`)
}
