import { systemRuntime } from '../concurrency/system-runtime.ts'
import { ConfigurationError } from '../model/errors.ts'
import { LINES } from '../model/logger.ts'
import { constants } from '../node.ts'
import { hasMethod } from '../support/wrong-arguments.ts'
import { type Consumption, DRAINING, type DrainFacts } from './consumption.ts'

/** A running consumer, or the `consumption` of a wrapped one. */
export type Drainable = Pick<Consumption, 'drain'> & Partial<Pick<Consumption, 'stopped'>>

const SIGNALS = ['SIGTERM', 'SIGINT'] as const

type DrainSignal = (typeof SIGNALS)[number]

/** npm and some shells send one Ctrl-C twice. Nobody presses it twice in this time, ms. */
const SAME_MS = 500

/** The process, or what stands for it in a test. */
interface Signalled {
  on(signal: DrainSignal, listener: (signal: DrainSignal) => void): unknown
  off(signal: DrainSignal, listener: (signal: DrainSignal) => void): unknown
  exit(code: number): unknown
}

/**
 * Drains consumers when the process gets SIGTERM or SIGINT (Ctrl-C), and says so in the log. A second signal, half a second
 * later or more, ends the process at once: what was not settled is redelivered.
 *
 * Stop the intake of a wrapped consumer yourself, before its drain.
 *
 * @returns A promise that resolves when all of them have stopped, however that came. Close guards, clients and pools
 *   after it. If one cannot continue, the others are drained and the promise rejects with its error.
 * @throws {@link ConfigurationError} if an argument is no consumption, as without the `await` before `consume…`.
 *
 * @example
 * ```ts
 * import { drainOnSignals } from '@onceward/core'
 * import { consumeSqs } from '@onceward/sqs'
 *
 * const orders = await consumeSqs(sqs, billing, { queueUrl })
 * await drainOnSignals(orders)
 * await billing.close()
 * await pool.end()
 * ```
 */
export function drainOnSignals(consumptions: Drainable | readonly Drainable[]): Promise<void> {
  return drainOn(process, consumptions)
}

export function drainOn(
  signalled: Signalled,
  consumptions: Drainable | readonly Drainable[],
  nowMs: () => number = systemRuntime.monotonic,
): Promise<void> {
  const all = demandDrainables([consumptions].flat())
  const drained = Promise.withResolvers<void>()
  const drain = async (): Promise<void> => {
    await Promise.all(all.map((each) => each.drain()))
  }
  let firstAtMs: number | undefined
  const onSignal = (signal: DrainSignal): void => {
    if (firstAtMs !== undefined) {
      if (nowMs() - firstAtMs >= SAME_MS) signalled.exit(128 + constants.signals[signal])
      return
    }
    firstAtMs = nowMs()
    tell(all, signal)
    drain().then(drained.resolve, drained.reject)
  }
  for (const signal of SIGNALS) signalled.on(signal, onSignal)
  // The rejection of a drain by an error of `stopped` is awaited below.
  drained.promise.catch(() => undefined)
  const stopped = all.map((each) => each.stopped ?? drained.promise)
  return Promise.all(stopped)
    .then(() => undefined)
    .catch(async (error: unknown) => {
      await drain().catch(() => undefined)
      throw error
    })
    .finally(() => {
      for (const signal of SIGNALS) signalled.off(signal, onSignal)
    })
}

function demandDrainables(given: readonly Drainable[]): readonly Drainable[] {
  for (const each of given) {
    if (hasMethod(each, 'drain')) continue
    const advice = hasMethod(each, 'then')
      ? 'a promise: write `await` before the `consume…` of your adapter'
      : 'something else: give it what the `consume…` of your adapter has returned'
    throw new ConfigurationError(`drainOnSignals expected a consumption, got ${advice}.`)
  }
  if (given.length > 0) return given
  throw new ConfigurationError(
    'drainOnSignals expected a consumption, got an empty list: give it what the `consume…` of your adapter has returned.',
  )
}

function tell(all: readonly Drainable[], signal: DrainSignal): void {
  const facts = all.flatMap((each) => (Reflect.get(each, DRAINING) as DrainFacts | undefined) ?? [])
  const [first] = facts
  if (first === undefined) return
  const drainMs = Math.max(...facts.map((each) => each.drainMs))
  const consumer = facts.length === 1 ? { consumer: first.consumer } : {}
  first.logger.info({ ...consumer, signal, drainMs }, LINES.draining)
}
