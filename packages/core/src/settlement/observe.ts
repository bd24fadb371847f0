import { isThenable, type MaybeAsync } from '../concurrency/maybe-async.ts'
import type { EventId } from '../model/brands.ts'
import { type Delivery, ownGetter, withGetters } from '../model/delivery.ts'
import { describeError } from '../model/errors.ts'
import type { InFlightEvent, Timings } from '../model/in-flight-event.ts'
import { isLevelEnabled, type Logger } from '../model/logger.ts'
import type { Runtime } from '../model/runtime.ts'
import type { Settlement } from '../model/settlement.ts'
import type { OutcomeRecord } from '../options/options.ts'
import type { CallerRetries, ResolvedOptions } from '../options/resolved-options.ts'
import { hashKey } from './key-hash.ts'
import type { Outcome } from './outcome.ts'

/** The details of a delivery that are known when it is settled. */
export interface Report {
  readonly delivery: Delivery
  readonly key?: string | undefined
  readonly eventId?: EventId | undefined
  readonly type?: string | undefined
  readonly outcome: Outcome
  readonly settlement: Settlement
  /** The event ran from the inbox. No broker waits for this settlement. */
  readonly parked?: boolean | undefined
  readonly handlerMs?: number | undefined
  readonly timings?: Timings | undefined
  /** When the call began, on the monotonic clock. */
  readonly startedAtMs: number
}

/** Step 5: calls the hook `observe` and writes the log line. Neither can make a delivery fail. */
export function observeOutcome(
  options: ResolvedOptions,
  secret: Uint8Array | undefined,
  report: Report,
): void {
  const { callerRetries, logger, observe } = options
  const [level, message] =
    (callerRetries && callerLineOf(callerRetries, report)) ?? lineOf(report.outcome)
  const isLogged = isLevelEnabled(logger, level)
  if (observe === undefined && !isLogged) return
  const record = toRecord(options, secret, report)
  if (observe !== undefined) tellObserver(observe, record, logger)
  if (isLogged) logger[level](toFields(record, report, options.logKeys), message)
}

function tellObserver(
  observe: (record: OutcomeRecord) => unknown,
  record: OutcomeRecord,
  logger: Logger,
): void {
  const failed = (error: unknown): void =>
    logger.error(
      { err: describeError(error) },
      'observe threw and the delivery is settled as usual: fix the hook',
    )
  try {
    const answer = observe(record)
    // An async hook is not awaited, but its rejection must not end the process.
    if (isThenable(answer)) Promise.resolve(answer).catch(failed)
  } catch (error) {
    failed(error)
  }
}

function toRecord(
  { consumer, runtime }: ResolvedOptions,
  secret: Uint8Array | undefined,
  report: Report,
): OutcomeRecord {
  const { delivery, eventId, handlerMs, key, outcome, parked, settlement, type } = report
  const { producedAt, redelivered } = delivery
  const record = {
    consumer,
    source: delivery.source,
    eventId,
    ...(type === undefined ? {} : { type }),
    attempt: 'attempt' in outcome ? outcome.attempt : 0,
    settlement,
    ...('cause' in settlement ? { cause: settlement.cause } : {}),
    ...('repeated' in outcome && outcome.repeated === true ? { repeated: true } : {}),
    ...(parked === true ? { parked: true } : {}),
    // An event that was only stored has not come to its end.
    ...(outcome.kind === 'parked' ? {} : ageOf(producedAt, runtime)),
    ...(redelivered === true ? { redelivered } : {}),
    handlerMs,
    ...report.timings,
    totalMs: runtime.monotonic() - report.startedAtMs,
  }
  const hash = (): string | undefined =>
    key === undefined || secret === undefined ? undefined : hashKey(secret, key)
  return withGetters<OutcomeRecord>(record, hash, KEY_HASH)
}

/** Computed when it is read: most hooks never do, and it takes a tenth of the guard's time per delivery. */
const KEY_HASH = [['keyHash', ownGetter((hash: () => string | undefined) => hash())]] as const

/** Nothing for a Date that is invalid: one NaN would spoil every sum of ages. */
function ageOf(
  producedAt: Date | undefined,
  runtime: Pick<Runtime, 'now'>,
): Pick<OutcomeRecord, 'messageAgeMs'> {
  const producedAtMs = producedAt?.getTime() ?? Number.NaN
  return Number.isNaN(producedAtMs) ? {} : { messageAgeMs: runtime.now() - producedAtMs }
}

/** The fields of a log line: no payload, no timings, and no key unless the user wants it. */
function toFields(
  { attempt, cause, consumer, eventId, keyHash, parked, settlement, source, type }: OutcomeRecord,
  { key, outcome }: Report,
  logKeys: boolean,
): object {
  const isFailure = 'error' in outcome && outcome.error !== undefined
  const refused =
    outcome.kind === 'dead' && outcome.ref?.kind === 'refused' ? outcome.ref : undefined
  return {
    ...{ consumer, eventId, keyHash, attempt, source, outcome: outcome.kind },
    ...(refused === undefined ? {} : { deadLetterId: refused.id }),
    ...(type === undefined ? {} : { type }),
    ...(logKeys && key !== undefined ? { key } : {}),
    ...('reason' in settlement ? { reason: settlement.reason } : {}),
    ...(cause === undefined ? {} : { cause }),
    ...(parked === undefined ? {} : { parked }),
    ...(isFailure ? { err: describeError(outcome.error) } : {}),
  }
}

type Line = readonly [keyof Logger, string]

const SETTLED: Line = ['debug', 'delivery settled']
const UNREAD: Line = ['warn', 'the message could not be read yet and is read again later']
const LINES: { readonly [Kind in Outcome['kind']]: Line } = {
  processed: SETTLED,
  duplicate: SETTLED,
  parked: SETTLED,
  skipped: SETTLED,
  unguarded: SETTLED,
  'in-progress': SETTLED,
  'not-due': SETTLED,
  deferred: ['info', 'the handler deferred its event'],
  'store-down': SETTLED,
  failed: ['warn', 'handler failed, the event is retried'],
  'after-commit-failed': [
    'warn',
    'afterCommit failed and the delivery is deferred: its event is committed and does not run again',
  ],
  'not-stored': [
    'error',
    'a dead letter is too large to store and its message is deferred: raise `maxStoredBytes` or configure `deadLetter`',
  ],
  conflict: [
    'warn',
    'event key reused with another payload: check the key resolver and the producer',
  ],
  abandoned: ['warn', 'delivery abandoned, the broker redelivers it'],
  dead: ['error', 'event dead-lettered: fix the cause, then replay the event'],
}

/** The line of an outcome that a caller waits for, where it differs: the caller retries, and gets refusals as answers. */
function callerLineOf({ isAnswer }: CallerRetries, { outcome, parked }: Report): Line | undefined {
  if (parked === true) return undefined
  switch (outcome.kind) {
    case 'failed':
      if (outcome.cause === 'identify-failed') return UNREAD
      return isAnswer(outcome.error)
        ? SETTLED
        : ['warn', 'handler failed and its key is free again: the caller may retry']
    case 'abandoned':
      if (outcome.reason === 'closing' && outcome.stillRunning !== true) return SETTLED
      return ['warn', 'request abandoned: its caller may retry with the same key']
    case 'conflict':
      return SETTLED
    case 'not-stored':
      return [
        'warn',
        'a delivery is too large to store and was refused: raise `maxStoredBytes` of the inbox',
      ]
    case 'dead':
      return outcome.attempt === 0 && outcome.error !== undefined ? SETTLED : undefined
    default:
      return undefined
  }
}

/**
 * Duplicates and deferrals are routine. So are messages that a drain or a rebalance returns unstarted, and copies of an
 * event that was reported as dead-lettered before.
 */
function lineOf(outcome: Outcome): Line {
  const { kind } = outcome
  const isReturnedUnstarted =
    kind === 'abandoned' && outcome.reason === 'closing' && outcome.stillRunning !== true
  const isRepeated = kind === 'dead' && outcome.repeated === true
  if (kind === 'failed' && outcome.cause === 'identify-failed') return UNREAD
  return isReturnedUnstarted || isRepeated ? SETTLED : LINES[kind]
}

/** Details of a delivery besides its outcome. */
export interface Facts {
  readonly key?: string | undefined
  readonly eventId?: EventId | undefined
  readonly type?: string | undefined
  readonly handlerMs?: number | undefined
  readonly timings?: Timings | undefined
  /** The delivery was split, and its items were reported. */
  readonly isReported?: boolean | undefined
}

export function factsOf(
  { event, timings, type }: InFlightEvent,
  handlerMs?: number | undefined,
): Facts {
  return { key: event.key, eventId: event.id, type, handlerMs, timings }
}

/** Called once for each delivery, with its index in the call, after everything is stored. */
export type Observe = (index: number, outcome: Outcome, facts: Facts) => void

/** The same for an item of a delivery that was split. Answers the outcome that counts for the delivery. */
export type ObserveItem = (
  delivery: Delivery,
  outcome: Outcome,
  facts: Facts,
) => MaybeAsync<Outcome>
