import { ConfigurationError } from '../model/errors.ts'
import type { GuardSettings } from '../model/guard-port.ts'
import { shown } from '../support/shown.ts'
import { type KnownNames, nameProblems, refuseNoObject } from '../support/wrong-arguments.ts'

/** How messages are gathered into calls of the guard; the same on every broker. */
export interface RunOptions {
  readonly batch?:
    | {
        /**
         * Most messages in one call of the guard, 1–100; with `transaction: 'batch'` they share one transaction.
         *
         * @defaultValue 100
         */
        readonly size?: number | undefined
        /**
         * Milliseconds to wait for a batch to fill, counted from its first message.
         *
         * @defaultValue 0 with `transaction: 'each'`, 20 (behind a prefetch 5) with `'batch'`
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
   * @defaultValue 20 000
   */
  readonly drainMs?: number | undefined
}

const BATCH_NAMES: KnownNames<NonNullable<RunOptions['batch']>> = { size: true, lingerMs: true }
/** The names of {@link RunOptions}, for the lists of the adapters. */
export const RUN_NAMES: KnownNames<RunOptions> = { batch: true }
/** The names of {@link ConsumeOptions}, for the lists of the adapters. */
export const CONSUME_NAMES: KnownNames<ConsumeOptions> = {
  ...RUN_NAMES,
  signal: true,
  drainMs: true,
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

/**
 * Refuses names that a function of an adapter does not have: at the top, in `batch` and in `deadLetter`.
 *
 * @param caller - The function that was called, as its user writes it.
 * @param deadLetter - The names that a dead-letter target can have.
 * @throws {@link ConfigurationError} with every name at once.
 */
export function refuseUnknownOptions<Options extends RunOptions>(
  caller: string,
  options: Options,
  known: KnownNames<Options>,
  deadLetter: readonly string[],
): void {
  refuseNoObject(caller, options)
  const groups: readonly (readonly [string, readonly string[]])[] = [
    ['batch', Object.keys(BATCH_NAMES)],
    ['deadLetter', deadLetter],
  ]
  const nested = groups.flatMap(([group, names]) => {
    const given: unknown = Reflect.get(options, group)
    return isObject(given) ? nameProblems(caller, given, names, `${group}.`) : []
  })
  refuseProblems([...nameProblems(caller, options, Object.keys(known)), ...nested])
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export function resolveRunOptions(options: ConsumeOptions, guard: GuardSettings): RunSettings {
  const { batch, drainMs } = options
  return {
    batchSize: batch?.size ?? RUN_DEFAULTS.batchSize,
    lingerMs: batch?.lingerMs ?? (guard.transaction === 'batch' ? RUN_DEFAULTS.lingerMs : 0),
    drainMs: drainMs ?? RUN_DEFAULTS.drainMs,
  }
}

/** A setting that is undefined must not take the place of its default. */
export const withoutUndefined = <Fields extends object>(fields?: Fields): Partial<Fields> =>
  Object.fromEntries(
    Object.entries(fields ?? {}).filter(([, value]) => value !== undefined),
  ) as Partial<Fields>

/** @throws {@link ConfigurationError} with every problem at once, if there is any. */
export function refuseProblems(problems: readonly string[]): void {
  if (problems.length > 0) throw new ConfigurationError(problems.join('\n'))
}

/** Every problem of the common options, each with its fix. */
export function runOptionProblems(options: ConsumeOptions): readonly string[] {
  const { batch, signal }: { readonly batch?: unknown; readonly signal?: unknown } = options
  return [
    ...(batch === undefined || isObject(batch)
      ? []
      : [
          `Expected \`batch\` to be an object with \`size\` and \`lingerMs\`, got ${quoted(batch)}.`,
        ]),
    ...(signal === undefined || isSignal(signal)
      ? []
      : [
          `Expected \`signal\` to be an AbortSignal, got ${quoted(signal)}. Give \`controller.signal\` of an AbortController.`,
        ]),
    ...rangeProblems('drainMs', options.drainMs, [0, LONGEST_DRAIN_MS]),
    ...rangeProblems('batch.lingerMs', options.batch?.lingerMs, [0, 60_000]),
    ...rangeProblems('batch.size', options.batch?.size, [1, 100], 'messages'),
  ]
}

/** Not by its class, because a test environment such as jsdom has one of its own. */
const isSignal = (value: unknown): boolean =>
  isObject(value) &&
  typeof Reflect.get(value, 'aborted') === 'boolean' &&
  typeof Reflect.get(value, 'addEventListener') === 'function'

/** The problem of an option that must be of one type; none if the option is left out. */
export function typeProblems(
  name: string,
  value: unknown,
  type: 'boolean' | 'object',
): readonly string[] {
  if (value === undefined || (type === 'object' ? isObject(value) : typeof value === type)) {
    return []
  }
  const expected = type === 'object' ? 'an object' : 'true or false'
  return [`Expected \`${name}\` to be ${expected}, got ${quoted(value)}.`]
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
  return value === undefined ? 'undefined' : `\`${shown(printable(value))}\` (${typeof value})`
}

/** Not every value has a text: an object without a prototype has none. */
function printable(value: unknown): string {
  try {
    return String(value)
  } catch {
    return '{…}'
  }
}
