import { ConfigurationError } from '@onceward/core'
import { refuseUnknownNames, shown } from '@onceward/core/adapter'

/** Options of {@link redisLeases}. */
export interface RedisLeasesOptions {
  /**
   * Longest wait for Redis, ms. With an inbox the guard then goes straight to PostgreSQL. Without an inbox only Redis
   * can answer, so the default is longer.
   * @defaultValue 20 with an inbox, 1000 without
   */
  readonly budgetMs?: number | undefined
  /**
   * Part of every key, for several systems on one Redis. With an inbox the identity of the PostgreSQL history is
   * added to it.
   * @defaultValue `onceward`
   */
  readonly namespace?: string | undefined
  /**
   * How long Redis remembers processed events with an inbox, ms: at least this, at most twice as long. PostgreSQL
   * remembers them for the whole dedup window, and Redis never longer: a third of the window is used if this is more.
   * Without an inbox Redis must do so, and a shorter value is refused.
   * @defaultValue 3600000
   */
  readonly rememberDoneMs?: number | undefined
  /**
   * Which events are claimed beside an inbox, whose rows are the fence. `by-need`: deliveries that may be copies, and all
   * events while many copies come that Redis knows. The others cost Redis only a mark, which is written behind their
   * commits. `always`: all of them, so copies of a long run wait without a look at PostgreSQL. Without an inbox every
   * event is claimed.
   * @defaultValue `by-need`
   */
  readonly hold?: 'always' | 'by-need' | undefined
}

/** {@link RedisLeasesOptions} after validation. */
export interface ResolvedRedisOptions {
  readonly budgetMs: number | undefined
  readonly namespace: string
  readonly rememberDoneMs: number | undefined
  readonly hold: 'always' | 'by-need'
}

export const DEFAULTS: Readonly<Record<'besideMs' | 'aloneMs' | 'rememberDoneMs', number>> & {
  readonly namespace: string
  readonly hold: 'by-need'
} = Object.freeze({
  besideMs: 20,
  aloneMs: 1_000,
  rememberDoneMs: 3_600_000,
  namespace: 'onceward',
  hold: 'by-need',
})

/**
 * Length of a generation of done marks, which live for up to two. Redis must not remember an event longer than PostgreSQL
 * does, whose row is as old as its transaction: the handler and the commit come before the mark.
 */
export const markMsOf = (rememberDoneMs: number, dedupWindowMs: number): number =>
  Math.min(rememberDoneMs, Math.ceil(dedupWindowMs / 3))

export const NAMESPACE: RegExp = /^[A-Za-z0-9._:-]{1,64}$/
const YEAR_MS = 31_536_000_000

/** @throws {@link ConfigurationError} */
export function redisOptions(options: RedisLeasesOptions): ResolvedRedisOptions {
  refuseUnknownNames('redisLeases', options, {
    ...{ budgetMs: true, namespace: true, rememberDoneMs: true, hold: true },
  })
  const { budgetMs, hold = DEFAULTS.hold, namespace = DEFAULTS.namespace, rememberDoneMs } = options
  demandInteger('budgetMs', budgetMs, [1, 60_000])
  demandInteger('rememberDoneMs', rememberDoneMs, [1_000, YEAR_MS])
  if (typeof namespace !== 'string' || !NAMESPACE.test(namespace)) {
    throw new ConfigurationError(
      `Expected \`namespace\` to be 1 to 64 of A-Z a-z 0-9 . _ : -, got \`${shown(String(namespace))}\`.`,
    )
  }
  if (hold !== 'always' && hold !== 'by-need') {
    throw new ConfigurationError(
      `Expected \`hold\` to be 'always' or 'by-need', got \`${shown(String(hold))}\`.`,
    )
  }
  return { budgetMs, namespace, rememberDoneMs, hold }
}

function demandInteger(
  name: string,
  value: number | undefined,
  [least, most]: readonly [number, number],
): void {
  if (value === undefined || (Number.isInteger(value) && value >= least && value <= most)) return
  throw new ConfigurationError(
    `Expected \`${name}\` to be an integer from ${least} to ${most}, got \`${shown(String(value))}\` (${typeof value}). Units are milliseconds.`,
  )
}
