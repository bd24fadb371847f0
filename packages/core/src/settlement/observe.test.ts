import { expect, test } from 'vitest'
import { systemRuntime } from '../concurrency/system-runtime.ts'
import { noop } from '../fixtures/inbox.ts'
import { resolveOptions } from '../guard/resolve-options.ts'
import { memoryInbox, toDelivery } from '../memory/index.ts'
import { type EventId, toEpochMs } from '../model/brands.ts'
import { LeaseLostError } from '../model/errors.ts'
import type { Logger } from '../model/logger.ts'
import type { OutcomeRecord } from '../options/options.ts'
import { observeOutcome } from './observe.ts'
import { type Outcome, settlementOf } from './outcome.ts'

const error = new LeaseLostError('The lease was lost.')

/** The log level of an outcome. */
function levelOf(outcome: Outcome): string | undefined {
  let heard: string | undefined
  const hear = (level: keyof Logger) => () => {
    heard = level
  }
  const logger = { debug: hear('debug'), info: noop, warn: hear('warn'), error: hear('error') }
  observeOutcome(resolveOptions({ consumer: 'billing', inbox: memoryInbox(), logger }), undefined, {
    delivery: toDelivery({}),
    key: undefined,
    outcome,
    settlement: settlementOf(outcome, { now: () => toEpochMs(0) }),
    handlerMs: undefined,
    startedAtMs: 1,
  })
  return heard
}

// Red when messages returned by a drain or a rebalance are logged as warnings: thousands of lines per deployment.
test.each<[string, string, Outcome]>([
  ['debug', 'was not started because the consumer stops', { kind: 'abandoned', reason: 'closing' }],
  [
    'warn',
    'is still running without its claim',
    { kind: 'abandoned', reason: 'closing', stillRunning: true },
  ],
  ['warn', 'lost its lease', { kind: 'abandoned', reason: 'lease-lost', error }],
  ['warn', 'may have been committed', { kind: 'abandoned', reason: 'commit-unknown', error }],
  ['debug', 'is processed', { kind: 'processed', attempt: 1 }],
  ['error', 'is dead-lettered', { kind: 'dead', reason: 'fatal', attempt: 1, error }],
  [
    'debug',
    'was dead-lettered before',
    { kind: 'dead', reason: 'fatal', attempt: 1, repeated: true },
  ],
])('%s says that a delivery %s', (level, _what, outcome) => {
  expect(levelOf(outcome)).toBe(level)
})

/** The record and the log line of a delivery with this outcome. */
function reportOf(outcome: Outcome, over: { readonly parked?: boolean } = {}) {
  const lines: object[] = []
  const records: OutcomeRecord[] = []
  const hear = (fields: object): void => void lines.push(fields)
  const logger = { debug: hear, info: hear, warn: hear, error: hear }
  const observe = (record: OutcomeRecord): void => void records.push(record)
  const options = resolveOptions({ consumer: 'billing', inbox: memoryInbox(), logger, observe })
  observeOutcome(options, new Uint8Array(32), {
    ...{
      delivery: toDelivery({}),
      outcome,
      settlement: settlementOf(outcome, { now: () => toEpochMs(0) }),
    },
    ...{ key: 'k', eventId: 'an-event' as EventId, startedAtMs: 1 },
    ...over,
  })
  return { record: records[0], line: lines[0] }
}

test.each<Outcome>([
  { kind: 'in-progress', delayMs: 5, cause: 'held-by-lease' },
  { kind: 'not-due', delayMs: 5, cause: 'lane-waits' },
  { kind: 'failed', attempt: 1, delayMs: 5, error, cause: 'handler-failed' },
  { kind: 'store-down', delayMs: 5, error, cause: 'breaker-open' },
  { kind: 'abandoned', reason: 'closing', cause: 'draining' },
])(
  'record and log line contain the cause of a deferred or abandoned delivery: $cause',
  (outcome) => {
    const { record, line } = reportOf(outcome)
    const { cause } = outcome as { readonly cause: string }
    expect(record).toMatchObject({ cause, eventId: 'an-event', settlement: { cause } })
    expect(line).toMatchObject({ cause, eventId: 'an-event', outcome: outcome.kind })
  },
)

test('a record marks repeated dead letters and parked runs', () => {
  const dead = { kind: 'dead', reason: 'fatal', attempt: 1 } as const
  expect(reportOf(dead).record).not.toHaveProperty('repeated')
  expect(reportOf({ ...dead, repeated: true }).record).toHaveProperty('repeated', true)
  expect(reportOf(dead).record).not.toHaveProperty('parked')
  expect(reportOf(dead, { parked: true }).record).toHaveProperty('parked', true)
  expect(reportOf(dead, { parked: true }).line).toHaveProperty('parked', true)
})

test('a record contains the age of a message with a producer timestamp', () => {
  const records: OutcomeRecord[] = []
  const observe = (record: OutcomeRecord): void => void records.push(record)
  const runtime = { ...systemRuntime, now: () => toEpochMs(5_000) }
  const options = resolveOptions({ consumer: 'billing', inbox: memoryInbox(), observe, runtime })
  const outcome = { kind: 'processed', attempt: 1 } as const
  // An average that has met NaN never leaves it.
  for (const over of [{ producedAt: new Date(2_000) }, {}, { producedAt: new Date(Number.NaN) }]) {
    const report = {
      outcome,
      settlement: settlementOf(outcome, { now: () => toEpochMs(0) }),
      startedAtMs: 1,
    }
    observeOutcome(options, undefined, { ...report, delivery: toDelivery({}, over) })
  }
  expect(records.map(({ messageAgeMs }) => messageAgeMs)).toEqual([3_000, undefined, undefined])
})
