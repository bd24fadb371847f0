import {
  createGuard,
  type Guard,
  type GuardEvent,
  type Handler,
  type Observer,
} from '@onceward/core'
import { meterObserver, traced } from '@onceward/otel'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { postgres } from '@onceward/testing/servers'
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import { BatchSpanProcessor, type SpanExporter, TracerProvider } from '@opentelemetry/sdk-trace'
import { Pool, type PoolClient } from 'pg'
import { createEffects, DURABLE, type Order, toDelivery, write } from '../load/effects.ts'
import { processorMeter } from '../runner/processor-time.ts'
import type { Benchmark } from '../runner/report.ts'
import { alternateMetered, CONCURRENCY, inLanes, median, ratioOf } from '../runner/rounds.ts'
import type { Scale } from '../runner/scale.ts'
import { settle } from './guard.ts'

type Work = Handler<Order, PoolClient>

/** What watches the guard of one contestant. */
interface Watch {
  readonly observe?: Observer
  readonly wrap?: (handler: Work) => Work
}

/** One guard, with nothing that watches, with a hook that does nothing, and with metrics and spans. */
export async function telemetryBenchmark(scale: Scale): Promise<Benchmark> {
  await using server = await postgres({ settings: DURABLE })
  const connectionString = await server.createDatabase()
  const pool = new Pool({ connectionString })
  await migrate(pool)
  await createEffects(pool)
  await using sdk = startSdk()
  const { meterProvider, tracerProvider } = sdk
  const metered = { observe: meterObserver({ meterProvider }) }
  const spans = { wrap: (handler: Work): Work => traced(handler, { tracerProvider }) }
  const watches: Readonly<Record<string, Watch>> = {
    off: {},
    'empty-hook': { observe: () => undefined },
    'no-sdk': { observe: meterObserver(), wrap: (handler) => traced(handler) },
    metrics: metered,
    traces: spans,
    both: { ...metered, ...spans },
  }
  const guards = Object.entries(watches).map(
    ([name, watch]) => [name, guardOf(name, connectionString, watch)] as const,
  )
  const meter = await processorMeter(pool)
  const contestants = guards.map(([name, guard]) => ({
    name,
    prepare: async (events: number) => {
      const deliveries = Array.from({ length: events }, toDelivery)
      return () =>
        inLanes(deliveries, CONCURRENCY, (delivery) => settle(guard, [delivery], 'processed'))
    },
  }))
  const { costs, rates } = await alternateMetered(contestants, scale, () => meter)
  await Promise.all(guards.map(([, guard]) => guard.close()))
  await pool.end()
  const client = [...costs].map(([name, rounds]) => {
    const used = rounds.map(({ system, user }) => user + system)
    return [`${name} client µs`, median(used)] as const
  })
  return {
    name: 'telemetry',
    unit: 'events/s',
    values: Object.fromEntries([
      ...[...rates].map(([name, round]) => [name, median(round)]),
      ...client,
    ]),
    goals: [],
    ratios: Object.fromEntries(
      Object.keys(watches)
        .filter((name) => name !== 'off')
        .map((name) => [name, ratioOf(rates, name, 'off')]),
    ),
  }
}

function guardOf(name: string, connectionString: string, { observe, wrap }: Watch): Guard {
  const handler: Work = ({ payload }: GuardEvent<Order>, { tx }) => write(tx, payload)
  const inbox = pgInbox({ connectionString })
  const options = { consumer: `bench-${name}`, inbox, concurrency: CONCURRENCY, observe }
  return createGuard(options, wrap === undefined ? handler : wrap(handler))
}

interface Sdk extends AsyncDisposable {
  readonly meterProvider: MeterProvider
  readonly tracerProvider: TracerProvider
}

/** Metrics and spans are collected as in production, and then dropped. */
function startSdk(): Sdk {
  const dropped: SpanExporter = {
    export: (_, done) => done({ code: 0 }),
    shutdown: () => Promise.resolve(),
  }
  const tracerProvider = new TracerProvider({
    spanProcessors: [new BatchSpanProcessor({ exporter: dropped, maxQueueSize: 100_000 })],
  })
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 10_000 })
  const meterProvider = new MeterProvider({ readers: [reader] })
  return {
    ...{ meterProvider, tracerProvider },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([meterProvider.shutdown(), tracerProvider.shutdown()])
    },
  }
}
