import type { Consumption, Guard, Health } from '@onceward/core'
import { describeError, type HealthPort, healthPortOf, pauseOf } from '@onceward/core/adapter'
import { samplesOf } from '../consumption-samples.ts'
import { CONSUMPTION_METRICS, CONVENTIONS, GUARD_METRICS, OWN } from '../names.ts'
import { DEPENDENCIES } from '../values.ts'
import { prometheusText, type Value } from './prometheus.ts'

export interface Sources {
  readonly consumptions: readonly (readonly [string, Pick<Consumption, 'health'>])[]
  readonly guards: readonly ObservedGuard[]
}

/** A guard of deliveries, or of a route or a webhook. */
export type ObservedGuard = Pick<Guard, 'close' | 'consumer'>

/** What `/livez` and `/readyz` answer. */
export interface Report {
  readonly isLive: boolean
  readonly isReady: boolean
  readonly consumptions: Readonly<Record<string, Health>>
  readonly guards: readonly {
    readonly consumer: string
    /** `paused`: its stores are fine, and it starts nothing. */
    readonly store: 'available' | 'down' | 'closed' | 'paused'
    /** Of a consumer that is paused: who has paused it, and why. */
    readonly reason?: string | undefined
    readonly outages: readonly string[]
  }[]
}

/**
 * Live: no consumer has stopped. A stopped one does not recover, so the process must be started again.
 *
 * Ready: every consumer receives, and every guard is open and asks its stores for the next delivery. A restart cures
 * none of these.
 */
export function reportOf({ consumptions, guards }: Sources): Report {
  const healths = consumptions.map(([name, consumption]) => [name, consumption.health()] as const)
  const stores = guards.map((guard): Report['guards'][number] => {
    const port = healthPortOf(guard)
    const down = pauseOf(port)
    const isPaused = down?.pause !== undefined
    return {
      consumer: guard.consumer,
      store: port.closing.aborted ? 'closed' : isPaused ? 'paused' : (down?.kind ?? 'available'),
      ...(isPaused ? { reason: describeError(down.error).message } : {}),
      outages: port.outages().map(({ dependency }) => dependency),
    }
  })
  const isLive = healths.every(([, { state }]) => state !== 'stopped')
  const isReceiving = healths.every(([, { state }]) => state === 'running')
  return {
    isLive,
    isReady: isReceiving && stores.every(({ store }) => store === 'available'),
    consumptions: Object.fromEntries(healths),
    guards: stores,
  }
}

/** The same in Prometheus' text format, under the names that `meterObserver` and `meterConsumptions` use. */
export function metricsText({ consumptions, guards }: Sources): string {
  const ofConsumptions = consumptions.flatMap(([name, consumption]) =>
    samplesOf(name, consumption.health(), Date.now()).map(
      ({ metric, ...sample }): Value => ({ ...sample, metric: CONSUMPTION_METRICS[metric] }),
    ),
  )
  const byConsumer = Map.groupBy(guards, ({ consumer }) => consumer)
  const ofGuards = [...byConsumer].flatMap(([consumer, all]) =>
    valuesOf(consumer, all.map(healthPortOf)),
  )
  return prometheusText([...ofConsumptions, ...ofGuards])
}

function valuesOf(consumer: string, ports: readonly HealthPort[]): Value[] {
  const attributes = { [CONVENTIONS.consumer]: consumer }
  const downs = ports.flatMap((port) => {
    const availability = port.availability()
    return availability.kind === 'down' ? [availability] : []
  })
  const isDown = downs.some(({ pause }) => pause === undefined)
  const isPaused = downs.some(({ pause }) => pause !== undefined)
  const out = new Set(ports.flatMap((port) => port.outages()).map(({ dependency }) => dependency))
  return [
    { metric: GUARD_METRICS.breaker, value: isDown ? 1 : 0, attributes },
    { metric: GUARD_METRICS.paused, value: isPaused ? 1 : 0, attributes },
    ...DEPENDENCIES.map((dependency) => ({
      metric: GUARD_METRICS.outage,
      value: out.has(dependency) ? 1 : 0,
      attributes: { ...attributes, [OWN.dependency]: dependency },
    })),
  ]
}
