import { ConfigurationError } from '@onceward/core'
import { type MeterProvider, metrics } from '@opentelemetry/api'
import { meterOf } from './metering.ts'
import { DEDUP_METRICS, OWN } from './names.ts'
import { observe } from './observables.ts'

/** What `approximateDedup` of `@onceward/redis` tells about itself. */
export interface MeteredDedup {
  /** Counts of this process. */
  falsePositives(): {
    readonly probes: number
    readonly hits: number
    readonly bound: number
  }
}

/**
 * Records how often approximate dedups take new events for done ones, whenever metrics are collected:
 * `meterDedups({ clicks: dedup })`. The names become an attribute. `hits / probes` is the rate that was measured, and
 * `bound` the one that is not exceeded by design.
 *
 * Call it when the SDK has started: what is registered later is not found.
 *
 * @param dedups - By the name that each has in metrics. `falsePositives()` counts for one process.
 * @returns Ends it.
 * @throws {@link ConfigurationError}
 *
 * @example
 * ```ts
 * import { meterDedups } from '@onceward/otel'
 * import { approximateDedup } from '@onceward/redis'
 *
 * const dedup = approximateDedup({ redis, windowMs: 3_600_000 })
 * const stop = meterDedups({ clicks: dedup })
 * ```
 */
export function meterDedups(
  dedups: Readonly<Record<string, MeteredDedup>>,
  options: { readonly meterProvider?: MeterProvider | undefined } = {},
): () => void {
  const named = Object.entries(dedups ?? {})
  for (const [name, dedup] of named) {
    if (typeof Reflect.get(Object(dedup), 'falsePositives') === 'function') continue
    throw new ConfigurationError(
      `Expected a dedup as \`${name}\` of meterDedups, got ${dedup === null ? 'null' : typeof dedup}. Give what \`approximateDedup(…)\` returns.`,
    )
  }
  const meter = meterOf(options.meterProvider ?? metrics.getMeterProvider())
  return observe(meter, DEDUP_METRICS, (tell) => {
    for (const [name, dedup] of named) {
      const { bound, hits, probes } = dedup.falsePositives()
      const attributes = { [OWN.dedup]: name }
      tell('probes', probes, attributes)
      tell('hits', hits, attributes)
      tell('bound', bound, attributes)
    }
  })
}
