import type { GuardReading, InboxFigures, LeaseRenewals, WatchedGuard } from '@onceward/core/ports'
import type { Meter } from '@opentelemetry/api'
import { type FiguresReader, figuresReader } from './figures.ts'
import { CONVENTIONS, GUARD_METRICS, OWN, TABLE_METRICS } from './names.ts'
import { observe, type Tell } from './observables.ts'
import { DEAD_LETTER_REASONS, DEPENDENCIES } from './values.ts'

interface Watched {
  readonly guard: WatchedGuard
  readonly figures: FiguresReader | undefined
  /** As they were read last: a closed guard has none. */
  renewals: LeaseRenewals | undefined
  incomplete: number
}

/** Counts of closed guards: a counter must not go back. */
interface Closed {
  readonly renewals: Map<string, LeaseRenewals>
  readonly incomplete: Map<string, number>
}

type Tables = Tell<typeof TABLE_METRICS>
type Guards = Tell<typeof GUARD_METRICS>

/** Reads the guards of the process whenever metrics are collected. Guards of one consumer are shown as one. */
export function watchGuards(
  meter: Meter,
): (guard: WatchedGuard, figuresEveryMs: number | undefined) => () => void {
  const watched = new Set<Watched>()
  const closed: Closed = { renewals: new Map(), incomplete: new Map() }
  const consumers = new Set<string>()
  observe(meter, GUARD_METRICS, (tell) => {
    const open = byConsumer(watched)
    // Also those without a guard: an SDK repeats the last value of a series that is no longer reported.
    for (const consumer of consumers) {
      const readings = (open.get(consumer) ?? []).map(readingOf)
      tellGuards(tell, consumer, { readings, closed })
    }
  })
  observe(meter, TABLE_METRICS, async (tell) => {
    await Promise.all(
      [...byConsumer(watched)].map(([consumer, guards]) => tellTables(tell, consumer, guards)),
    )
  })
  return (guard, figuresEveryMs) => {
    const figures = figuresEveryMs === undefined ? undefined : figuresReader(guard, figuresEveryMs)
    const entry: Watched = { guard, figures, renewals: undefined, incomplete: 0 }
    watched.add(entry)
    consumers.add(guard.consumer)
    return () => {
      watched.delete(entry)
      const { consumer } = guard
      const { incomplete, renewals } = closed
      incomplete.set(consumer, entry.incomplete + (incomplete.get(consumer) ?? 0))
      if (entry.renewals === undefined) return
      renewals.set(consumer, sumOf([entry.renewals, renewals.get(consumer)]))
    }
  }
}

function readingOf(watched: Watched): GuardReading {
  const reading = watched.guard.read()
  watched.renewals = reading.leases?.renewals ?? watched.renewals
  watched.incomplete = reading.incompleteEvents ?? 0
  return reading
}

function byConsumer(watched: Iterable<Watched>): ReadonlyMap<string, readonly Watched[]> {
  return Map.groupBy(watched, ({ guard }) => guard.consumer)
}

interface Readings {
  readonly readings: readonly GuardReading[]
  readonly closed: Closed
}

function tellGuards(tell: Guards, name: string, { closed, readings }: Readings): void {
  const consumer = { [CONVENTIONS.consumer]: name }
  const sum = (numberOf: (reading: GuardReading) => number): number =>
    readings.reduce((total, reading) => total + numberOf(reading), 0)
  tell(
    'inHand',
    sum(({ inHand }) => inHand),
    consumer,
  )
  tell(
    'concurrency',
    sum(({ concurrency }) => concurrency),
    consumer,
  )
  tell(
    'incomplete',
    sum(({ incompleteEvents = 0 }) => incompleteEvents) + (closed.incomplete.get(name) ?? 0),
    consumer,
  )
  tell('breaker', readings.some(({ breaker }) => breaker === 'open') ? 1 : 0, consumer)
  tell('paused', readings.some(({ paused }) => paused === true) ? 1 : 0, consumer)
  for (const dependency of DEPENDENCIES) {
    const isOut = readings.some(({ outages }) => outages.includes(dependency))
    tell('outage', isOut ? 1 : 0, { ...consumer, [OWN.dependency]: dependency })
  }
  if (closed.renewals.has(name) || readings.some(({ leases }) => leases !== undefined)) {
    tell(
      'leases',
      sum(({ leases }) => leases?.held ?? 0),
      consumer,
    )
    const open = readings.map(({ leases }) => leases?.renewals)
    for (const [answer, count] of Object.entries(sumOf([...open, closed.renewals.get(name)])))
      tell('renewals', count, { ...consumer, [OWN.answer]: answer })
  }
  tellPool(tell, consumer, readings)
}

/** Guards of one consumer usually share a pool, but not always. The fullest one is shown. */
function tellPool(
  tell: Guards,
  consumer: Readonly<Record<string, string>>,
  readings: readonly GuardReading[],
): void {
  const [pool] = readings
    .flatMap((reading) => reading.pool ?? [])
    .toSorted((one, other) => other.waiting - one.waiting || other.used - one.used)
  if (pool === undefined) return
  tell('pool', pool.used, { ...consumer, [OWN.state]: 'used' })
  tell('pool', pool.idle, { ...consumer, [OWN.state]: 'idle' })
  tell('poolWaiting', pool.waiting, consumer)
  if (pool.size !== undefined) tell('poolMax', pool.size, consumer)
}

/** The guards of one consumer read the same rows, so one of them is asked. */
async function tellTables(tell: Tables, name: string, guards: readonly Watched[]): Promise<void> {
  const reader = guards.find(({ figures }) => figures !== undefined)?.figures
  const figures = await reader?.()
  if (figures !== undefined) tellFigures(tell, { [CONVENTIONS.consumer]: name }, figures)
}

function tellFigures(
  tell: Tables,
  consumer: Readonly<Record<string, string>>,
  { deadLetters, parked, parkedForMs, tables, workerSilencesMs = {} }: InboxFigures,
): void {
  // Also those without any: an alert sees the first one only where a 0 came before.
  for (const reason of DEAD_LETTER_REASONS)
    tell('deadLetters', deadLetters[reason] ?? 0, { ...consumer, [OWN.reason]: reason })
  tell('parked', parked, consumer)
  tell('parkedAge', parkedForMs / 1_000, consumer)
  for (const [name, silenceMs] of Object.entries(workerSilencesMs))
    tell('workerSilence', silenceMs / 1_000, { [CONVENTIONS.consumer]: name })
  for (const { bytes, name, rows } of tables) {
    const table = { ...consumer, [OWN.table]: name }
    tell('tableSize', bytes, table)
    tell('tableRows', rows, table)
  }
}

function sumOf(all: readonly (LeaseRenewals | undefined)[]): LeaseRenewals {
  const sum = (answer: keyof LeaseRenewals): number =>
    all.reduce((total, renewals) => total + (renewals?.[answer] ?? 0), 0)
  return { held: sum('held'), lost: sum('lost'), failed: sum('failed') }
}
