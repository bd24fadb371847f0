import type { OutcomeRecord } from '@onceward/core'
import type { WatchedGuard } from '@onceward/core/ports'
import type { Attributes, Counter, Histogram, Meter, MeterProvider } from '@opentelemetry/api'
import { CONVENTIONS, DELIVERY_METRICS, type Metric, OWN, PROCESS } from './names.ts'
import { boundedSources } from './sources.ts'
import { DEAD_LETTER_REASONS } from './values.ts'
import { SCHEMA_URL, SCOPE, VERSION } from './version.ts'
import { watchGuards } from './watched-guards.ts'

/** The instruments of one provider, which all observers of the process share. */
export interface Metering {
  readonly provider: MeterProvider
  record(record: OutcomeRecord): void
  /** @param figuresEveryMs - Undefined: the tables are not asked. */
  watch(guard: WatchedGuard, figuresEveryMs: number | undefined): () => void
}

const meterings = new WeakMap<MeterProvider, Metering>()

export function meteringOf(provider: MeterProvider): Metering {
  const known = meterings.get(provider)
  if (known !== undefined) return known
  const meter = meterOf(provider)
  const metering = { provider, record: createRecorder(meter), watch: watchGuards(meter) }
  meterings.set(provider, metering)
  return metering
}

export const meterOf = (provider: MeterProvider): Meter =>
  provider.getMeter(SCOPE, VERSION, { schemaUrl: SCHEMA_URL })

const SECOND_MS = 1_000

function createRecorder(meter: Meter): (record: OutcomeRecord) => void {
  const sourceOf = boundedSources()
  /** The consumers of each source, with the types of messages, whose series have begun. */
  const begun = new WeakMap<Attributes, Set<string>>()
  const deliveries = counter(meter, DELIVERY_METRICS.deliveries)
  const duration = histogram(meter, DELIVERY_METRICS.processDuration)
  const attempts = histogram(meter, DELIVERY_METRICS.attempts)
  const times = [
    [histogram(meter, DELIVERY_METRICS.claim), 'claimMs'],
    [histogram(meter, DELIVERY_METRICS.commit), 'commitMs'],
    [histogram(meter, DELIVERY_METRICS.age), 'messageAgeMs'],
  ] as const
  return (record) => {
    const { attempt, consumer, handlerMs, settlement, type } = record
    const source = sourceOf(record.source)
    const from = {
      ...source,
      [CONVENTIONS.consumer]: consumer,
      ...(type === undefined ? {} : { [OWN.type]: type }),
    }
    const series = type === undefined ? consumer : `${consumer} ${type}`
    if (begun.get(source)?.has(series) !== true) {
      begun.set(source, (begun.get(source) ?? new Set()).add(series))
      // A rate sees no step in a series whose first value is not 0, so it would miss a first storm of dead letters.
      for (const reason of DEAD_LETTER_REASONS)
        deliveries.add(0, { ...from, [OWN.outcome]: 'dead-letter', [OWN.reason]: reason })
    }
    deliveries.add(1, { ...from, ...settlementAttributes(record) })
    for (const [instrument, name] of times) {
      const tookMs = record[name]
      // A producer's clock may be ahead.
      if (tookMs !== undefined) instrument.record(Math.max(0, tookMs) / SECOND_MS, from)
    }
    if (handlerMs === undefined) return
    attempts.record(attempt, { ...from, [OWN.outcome]: settlement.kind })
    const operation = { ...from, [CONVENTIONS.operation]: PROCESS, ...errorType(record) }
    duration.record(handlerMs / SECOND_MS, operation)
  }
}

function settlementAttributes(record: OutcomeRecord): Attributes {
  const { cause, parked, repeated, settlement } = record
  const reason = settlement.kind === 'ack' ? settlement.by : settlement.reason
  const copies = record.redelivered === true ? 'redelivered' : 'copy'
  const shownCause = reason === 'duplicate' ? copies : cause
  return {
    [OWN.outcome]: settlement.kind,
    [OWN.reason]: reason,
    ...(shownCause === undefined ? {} : { [OWN.cause]: shownCause }),
    ...(repeated === true ? { [OWN.repeated]: true } : {}),
    ...(parked === true ? { [OWN.parked]: true } : {}),
  }
}

/** How the run ended, if not with an ack. Names of errors are unbounded, so they are not an attribute. */
function errorType({ cause, settlement }: OutcomeRecord): Attributes {
  if (settlement.kind === 'ack') return {}
  return { [CONVENTIONS.errorType]: cause ?? settlement.reason }
}

const counter = (meter: Meter, { meaning, name, unit }: Metric): Counter =>
  meter.createCounter(name, { description: meaning, unit })

function histogram(meter: Meter, { buckets, meaning, name, unit }: Metric): Histogram {
  const advice = buckets === undefined ? {} : { explicitBucketBoundaries: [...buckets] }
  return meter.createHistogram(name, { description: meaning, unit, advice })
}
