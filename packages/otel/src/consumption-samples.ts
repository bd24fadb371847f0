import type { Consumption, Health } from '@onceward/core'
import { ConfigurationError } from '@onceward/core'
import { type CONSUMPTION_METRICS, OWN } from './names.ts'
import { CONSUMPTION_STATES, DEPENDENCIES } from './values.ts'

/** Running consumers and what wraps carry as `consumption`, by the name that they have in metrics, or as a list. */
export type MeteredConsumptions =
  | Readonly<Record<string, Pick<Consumption, 'health'>>>
  | readonly Pick<Consumption, 'health'>[]

/** One value of a metric of {@link CONSUMPTION_METRICS}. */
export interface Sample {
  readonly metric: keyof typeof CONSUMPTION_METRICS
  readonly value: number
  readonly attributes: Readonly<Record<string, string>>
}

/** @throws {@link ConfigurationError} for a value that is not a consumption. */
export function namedConsumptions(
  caller: string,
  consumptions: MeteredConsumptions,
): readonly (readonly [string, Pick<Consumption, 'health'>])[] {
  const named = Object.entries(consumptions ?? {})
  for (const [name, consumption] of named) {
    if (typeof Reflect.get(Object(consumption), 'health') === 'function') continue
    throw new ConfigurationError(
      `Expected a consumption as \`${name}\` of ${caller}, got ${consumption === null ? 'null' : typeof consumption}. Give what \`await consumeKafka(…)\` returns, or \`wrapped.consumption\`.`,
    )
  }
  return named
}

/** The values of all metrics of a consumption. */
export function samplesOf(name: string, health: Health, nowMs: number): readonly Sample[] {
  const attributes = { [OWN.consumption]: name }
  const { inFlight, lastProgressAt, outages = [], settleFailures, state } = health
  const idleMs = lastProgressAt === undefined ? undefined : nowMs - lastProgressAt.getTime()
  return [
    ...CONSUMPTION_STATES.map((each) => ({
      metric: 'state' as const,
      value: each === state ? 1 : 0,
      attributes: { ...attributes, [OWN.state]: each },
    })),
    { metric: 'inFlight', value: inFlight, attributes },
    ...(idleMs === undefined
      ? []
      : [{ metric: 'idle' as const, value: Math.max(0, idleMs) / 1_000, attributes }]),
    { metric: 'settleFailures', value: settleFailures, attributes },
    ...(['broker', ...DEPENDENCIES] as const).map((dependency) => ({
      metric: 'outage' as const,
      value: outages.some((outage) => outage.dependency === dependency) ? 1 : 0,
      attributes: { ...attributes, [OWN.dependency]: dependency },
    })),
  ]
}
