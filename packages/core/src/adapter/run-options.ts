import { ConfigurationError } from '../model/errors.ts'
import type { GuardSettings } from '../model/guard-port.ts'

/** How messages are gathered into calls of the guard; the same on every broker. */
export interface RunOptions {
  readonly batch?:
    | {
        /**
         * Most messages in one call of the guard, 1–100; with `transaction: 'batch'` they share one transaction.
         *
         * @defaultValue `RUN_DEFAULTS.batchSize`
         */
        readonly size?: number | undefined
        /**
         * Milliseconds to wait for a batch to fill, counted from its first message.
         *
         * @defaultValue 0 with `transaction: 'each'`, `RUN_DEFAULTS.lingerMs` with `'batch'`
         */
        readonly lingerMs?: number | undefined
      }
    | undefined
}

export interface ConsumeOptions extends RunOptions {
  /** Aborting it drains the consumer. */
  readonly signal?: AbortSignal | undefined
  /**
   * Milliseconds that running handlers get to end in a drain, before their signals abort.
   *
   * The whole drain takes at most `drainMs`, two seconds for handlers to heed their signal, and the last calls to
   * the broker. Keep the sum below the grace period of your platform (Kubernetes: 30 s).
   *
   * @defaultValue `RUN_DEFAULTS.drainMs`
   */
  readonly drainMs?: number | undefined
}

/** {@link ConsumeOptions} after defaults. */
export interface RunSettings {
  readonly batchSize: number
  readonly lingerMs: number
  readonly drainMs: number
}

/** Defaults of every adapter, in milliseconds where the name says so. */
export const RUN_DEFAULTS: Readonly<Record<'batchSize' | 'lingerMs' | 'drainMs', number>> =
  Object.freeze({ batchSize: 100, lingerMs: 20, drainMs: 20_000 })

const LONGEST_DRAIN_MS = 43_200_000

export function resolveRunOptions(options: ConsumeOptions, guard: GuardSettings): RunSettings {
  const { batch, drainMs } = options
  return {
    batchSize: batch?.size ?? RUN_DEFAULTS.batchSize,
    lingerMs: batch?.lingerMs ?? (guard.transaction === 'batch' ? RUN_DEFAULTS.lingerMs : 0),
    drainMs: drainMs ?? RUN_DEFAULTS.drainMs,
  }
}

/** @throws {@link ConfigurationError} with every problem at once, if there is any. */
export function refuseProblems(problems: readonly string[]): void {
  if (problems.length > 0) throw new ConfigurationError(problems.join('\n'))
}

/** Every problem of the common options, each with its fix. */
export function runOptionProblems(options: ConsumeOptions): readonly string[] {
  return [
    ...rangeProblems('drainMs', options.drainMs, [0, LONGEST_DRAIN_MS]),
    ...rangeProblems('batch.lingerMs', options.batch?.lingerMs, [0, 60_000]),
    ...rangeProblems('batch.size', options.batch?.size, [1, 100], 'messages'),
  ]
}

/** The problem of an option that must be an integer within a range; none if the option is left out. */
export function rangeProblems(
  name: string,
  value: unknown,
  [least, most]: readonly [number, number],
  unit = 'milliseconds',
): readonly string[] {
  if (value === undefined) return []
  if (Number.isInteger(value) && Number(value) >= least && Number(value) <= most) return []
  return [
    `Expected \`${name}\` to be an integer from ${least} to ${most}, got ${quoted(value)}. Units are ${unit}.`,
  ]
}

/** A value as a configuration error quotes it. */
export function quoted(value: unknown): string {
  return value === undefined ? 'undefined' : `\`${String(value)}\` (${typeof value})`
}
