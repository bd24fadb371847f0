import { ConfigurationError, type Observer, type OutcomeRecord } from '@onceward/core'
import {
  hasMethod,
  rangeProblems,
  refuseProblems,
  refuseUnknownNames,
} from '@onceward/core/adapter'
import type { WatchedGuard } from '@onceward/core/ports'
import { type MeterProvider, metrics } from '@opentelemetry/api'
import { type Metering, meteringOf } from './metering.ts'

/** Options of {@link meterObserver}. */
export interface MeterObserverOptions {
  /** Where the metrics go. Default: the provider that is registered globally, also when that happens later. */
  readonly meterProvider?: MeterProvider | undefined
  /**
   * Shortest time between two statements that ask for dead letters and table sizes, milliseconds, 1000–3600000, or
   * `false` for no such metrics. Each consumer of the process sends one when metrics are collected.
   * @defaultValue 15000
   */
  readonly figuresEveryMs?: number | false | undefined
}

const NAMES = { meterProvider: true, figuresEveryMs: true } as const
const FIGURES_EVERY_MS = 15_000

/**
 * The hook `observe` that records OpenTelemetry metrics: `createGuard({ …, observe: meterObserver() }, handler)`.
 * docs/telemetry.md lists them. Attributes have closed sets of values; no key, payload or error text is among them.
 *
 * @throws {@link ConfigurationError}
 */
export function meterObserver(options: MeterObserverOptions = {}): Observer {
  refuseUnknownNames('meterObserver', options, NAMES)
  const { figuresEveryMs = FIGURES_EVERY_MS, meterProvider } = options
  if (figuresEveryMs !== false)
    refuseProblems(rangeProblems('figuresEveryMs', figuresEveryMs, [1_000, 3_600_000]))
  if (meterProvider !== undefined && !hasMethod(meterProvider, 'getMeter')) {
    throw new ConfigurationError(
      'Expected `meterProvider` of meterObserver to be a MeterProvider of OpenTelemetry, which has `getMeter`. Give the one of your SDK, or leave it out for the global one.',
    )
  }
  const { metering, watch } = createFollower({ figuresEveryMs, meterProvider })
  const observe = (record: OutcomeRecord): void => metering().record(record)
  return Object.assign(observe, { watch })
}

interface Follower {
  readonly metering: () => Metering
  readonly watch: (guard: WatchedGuard) => () => void
}

/** Moves the guards to the provider that is registered now: guards are often made before the SDK has started. */
function createFollower({
  figuresEveryMs,
  meterProvider,
}: Required<Pick<MeterObserverOptions, 'figuresEveryMs' | 'meterProvider'>>): Follower {
  const everyMs = typeof figuresEveryMs === 'number' ? figuresEveryMs : undefined
  const watched = new Map<WatchedGuard, () => void>()
  let current: Metering | undefined
  const metering = (): Metering => {
    const provider = meterProvider ?? metrics.getMeterProvider()
    if (current?.provider === provider) return current
    const next = meteringOf(provider)
    current = next
    for (const [guard, unwatch] of watched) {
      unwatch()
      watched.set(guard, next.watch(guard, everyMs))
    }
    return next
  }
  return {
    metering,
    watch: (guard) => {
      watched.set(guard, metering().watch(guard, everyMs))
      return () => {
        watched.get(guard)?.()
        watched.delete(guard)
      }
    },
  }
}
