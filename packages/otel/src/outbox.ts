import { ConfigurationError } from '@onceward/core'
import { type MeterProvider, metrics } from '@opentelemetry/api'
import { meterOf } from './metering.ts'
import { OUTBOX_METRICS, OWN } from './names.ts'
import { observe } from './observables.ts'

/** What `startRelay` of `@onceward/postgres/outbox` tells about the outbox. */
export interface MeteredOutbox {
  figures(): Promise<
    readonly {
      readonly destination: string
      readonly waiting: number
      readonly delayed: number
      readonly refused: number
      readonly dead: number
      readonly isServed: boolean
      readonly oldestWaitingMs: number
      readonly published: number
      readonly failed: number
    }[]
  >
}

const STATES = ['waiting', 'delayed', 'refused', 'dead'] as const

/**
 * Records what waits in the outbox, and what relays have published, whenever metrics are collected:
 * `meterOutbox({ outbox: relay })`. The names become an attribute. While the database does not answer, nothing is
 * recorded. `meterConsumptions` records what `health()` of a relay says.
 *
 * Call it when the SDK has started: what is registered later is not found.
 *
 * @param relays - By the name that each has in metrics.
 * @returns Ends it.
 * @throws {@link ConfigurationError}
 *
 * @example
 * ```ts
 * import { meterOutbox } from '@onceward/otel'
 * import { startRelay } from '@onceward/postgres/outbox'
 *
 * const log = { batch: 1, publish: async () => [undefined] }
 * const relay = await startRelay({ pool, destinations: { log } })
 * const stop = meterOutbox({ outbox: relay })
 * ```
 */
export function meterOutbox(
  relays: Readonly<Record<string, MeteredOutbox>>,
  options: { readonly meterProvider?: MeterProvider | undefined } = {},
): () => void {
  const named = Object.entries(relays ?? {})
  for (const [name, relay] of named) {
    if (typeof Reflect.get(Object(relay), 'figures') === 'function') continue
    throw new ConfigurationError(
      `Expected a relay as \`${name}\` of meterOutbox, got ${relay === null ? 'null' : typeof relay}. Give what \`await startRelay(…)\` returns.`,
    )
  }
  const meter = meterOf(options.meterProvider ?? metrics.getMeterProvider())
  return observe(meter, OUTBOX_METRICS, async (tell) => {
    const read = await Promise.allSettled(named.map(([, relay]) => relay.figures()))
    for (const [index, answer] of read.entries()) {
      if (answer.status === 'rejected') continue
      for (const {
        destination,
        failed,
        isServed,
        oldestWaitingMs,
        published,
        ...counts
      } of answer.value) {
        const attributes = {
          [OWN.consumption]: named[index]?.[0] ?? '',
          [OWN.destination]: destination,
        }
        tell('age', oldestWaitingMs / 1_000, attributes)
        tell('served', isServed ? 1 : 0, attributes)
        tell('published', published, attributes)
        tell('failed', failed, attributes)
        for (const state of STATES)
          tell('messages', counts[state], { ...attributes, [OWN.state]: state })
      }
    }
  })
}
