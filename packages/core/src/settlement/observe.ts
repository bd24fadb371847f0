import type { Delivery } from '../model/delivery.ts'
import { describeError } from '../model/errors.ts'
import { isLevelEnabled, type Logger } from '../model/logger.ts'
import type { Settlement } from '../model/settlement.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { hashKey } from './key-hash.ts'
import type { Outcome } from './outcome.ts'

/** What is known of a delivery when its settlement is. */
export interface Report {
  readonly delivery: Delivery
  readonly key: string | undefined
  readonly outcome: Outcome
  readonly settlement: Settlement
  readonly handlerMs: number | undefined
  readonly totalMs: number
}

/** The one hook and the log line. Neither can fail a delivery. */
export function observeOutcome(
  options: ResolvedOptions,
  secret: Uint8Array | undefined,
  entry: Report,
): void {
  const { delivery, key, outcome, settlement, handlerMs, totalMs } = entry
  const [level] = lineOf(outcome)
  // This runs once per delivery, and a hash that nobody reads would be a tenth of what the guard costs.
  if (options.observe === undefined && !isLevelEnabled(options.logger, level)) return
  const keyHash = key === undefined || secret === undefined ? undefined : hashKey(secret, key)
  const attempt = 'attempt' in outcome ? outcome.attempt : 0
  const { consumer, logger, observe } = options
  if (observe !== undefined) {
    try {
      observe({
        consumer,
        source: delivery.source,
        keyHash,
        attempt,
        settlement,
        handlerMs,
        totalMs,
      })
    } catch (error) {
      logger.error({ err: describeError(error) }, 'observe threw')
    }
  }
  log(options, entry, { consumer, keyHash, attempt, source: delivery.source })
}

type Line = readonly [keyof Logger, string]

const SETTLED: Line = ['debug', 'delivery settled']
const LINES: { readonly [Kind in Outcome['kind']]: Line } = {
  processed: SETTLED,
  duplicate: SETTLED,
  skipped: SETTLED,
  unguarded: SETTLED,
  'in-progress': SETTLED,
  'not-due': SETTLED,
  'store-down': SETTLED,
  failed: ['warn', 'handler failed, event is tried again'],
  conflict: ['warn', 'event key reused with another payload'],
  abandoned: ['warn', 'delivery abandoned'],
  dead: ['error', 'event is dead'],
}

/** What a drain or a rebalance never began is nobody's trouble: whoever has it next begins it. */
const lineOf = (outcome: Outcome): Line =>
  outcome.kind === 'abandoned' && outcome.reason === 'closing' && outcome.stillRunning !== true
    ? SETTLED
    : LINES[outcome.kind]

/** Duplicates and deferrals are the daily business of a consumer; only what lost its way is a warning. */
function log(options: ResolvedOptions, { outcome, settlement }: Report, fields: object): void {
  const { kind } = outcome
  const detail = 'reason' in settlement ? { ...fields, reason: settlement.reason } : fields
  const error =
    'error' in outcome && outcome.error !== undefined ? describeError(outcome.error) : undefined
  const record = error === undefined ? detail : { ...detail, err: error }
  const [level, message] = lineOf(outcome)
  options.logger[level]({ ...record, outcome: kind }, message)
}
