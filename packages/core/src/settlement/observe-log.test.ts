import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { systemRuntime } from '../concurrency/system-runtime.ts'
import { resolveOptions } from '../guard/resolve-options.ts'
import { memoryInbox, toDelivery } from '../memory/index.ts'
import { type EventId, toEpochMs } from '../model/brands.ts'
import type { Delivery } from '../model/delivery.ts'
import type { Logger } from '../model/logger.ts'
import type { OutcomeRecord } from '../options/options.ts'
import { hashKey } from './key-hash.ts'
import { observeOutcome, type Report } from './observe.ts'
import { type Outcome, settlementOf } from './outcome.ts'

type Line = readonly [level: keyof Logger, fields: object, message: string]

interface Setting {
  readonly observe?: (record: OutcomeRecord) => void
  readonly isHeard?: boolean
  readonly secret?: Uint8Array | undefined
  /** The guard answers callers; this error is an answer. */
  readonly answer?: unknown
}

const secret = new Uint8Array(32)
const error = new Error('the shop is closed')
const processed: Outcome = { kind: 'processed', attempt: 1 }

/** Reports an outcome; the lines that the logger gets. */
function report(outcome: Outcome, setting: Setting = {}, over: Partial<Report> = {}) {
  const lines: Line[] = []
  const at = (level: keyof Logger) => (fields: object, message: string) =>
    void lines.push([level, fields, message])
  const logger = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
  const { isHeard = true, observe } = setting
  const options = resolveOptions({
    ...{ consumer: 'billing', inbox: memoryInbox(), observe },
    logger: { ...logger, isLevelEnabled: () => isHeard } as Logger,
    runtime: { ...systemRuntime, now: () => toEpochMs(5_000), monotonic: () => 130 },
  })
  const callerRetries = { isAnswer: (thrown: unknown) => thrown === setting.answer }
  const whole: Report = {
    ...{ delivery: toDelivery({}), outcome, key: 'k', eventId: 'an-event' as EventId },
    ...{ settlement: settlementOf(outcome, { now: () => toEpochMs(0) }), startedAtMs: 100 },
  }
  observeOutcome(
    'answer' in setting ? { ...options, callerRetries } : options,
    'secret' in setting ? setting.secret : secret,
    Object.defineProperties(whole, Object.getOwnPropertyDescriptors(over)),
  )
  return lines
}

function recordOf(outcome: Outcome, over: Partial<Report> = {}, setting: Setting = {}) {
  const records: OutcomeRecord[] = []
  const observe = (record: OutcomeRecord): void => void records.push(record)
  report(outcome, { ...setting, observe }, over)
  return records[0]
}

test('a record has the whole time, and is only built if somebody reads it', () => {
  expect(recordOf(processed)?.totalMs).toBe(30)
  const over = {
    get delivery(): Delivery {
      throw new Error('the delivery was read')
    },
  }
  expect(report(processed, { isHeard: false }, over)).toEqual([])
  expect(() => report(processed, {}, over)).toThrow('the delivery was read')
})

test('a logger that hears nothing gets no line, and a guard without the hook logs one', () => {
  const records: OutcomeRecord[] = []
  const observe = (record: OutcomeRecord): void => void records.push(record)
  expect(report(processed, { isHeard: false, observe })).toEqual([])
  expect(records).toHaveLength(1)
  expect(report(processed).map(([level]) => level)).toEqual(['debug'])
})

test.each<[string, (record: OutcomeRecord) => unknown]>([
  [
    'throws',
    () => {
      throw error
    },
  ],
  ['rejects', () => Promise.reject(error)],
])('a hook that %s is logged as an error, and the delivery as usual', async (_, observe) => {
  const lines = report(processed, { observe: observe as (record: OutcomeRecord) => void })
  await turn()
  expect(lines).toHaveLength(2)
  const failed = lines.find(([level]) => level === 'error')
  expect(failed?.[1]).toMatchObject({ err: { message: 'the shop is closed' } })
  expect(failed?.[2]).toContain('fix the hook')
})

test('a key is hashed if there is one, and a secret', () => {
  expect(recordOf(processed)?.keyHash).toBe(hashKey(secret, 'k'))
  expect(recordOf(processed, { key: undefined })?.keyHash).toBeUndefined()
  expect(recordOf(processed, {}, { secret: undefined })?.keyHash).toBeUndefined()
})

test('a record says what was redelivered, and has no age of an event that was only stored', () => {
  const producedAt = new Date(1_000)
  const again = recordOf(processed, { delivery: toDelivery({}, { redelivered: true, producedAt }) })
  expect(again).toMatchObject({ redelivered: true, messageAgeMs: 4_000 })
  const first = recordOf(processed, { delivery: toDelivery({}, { redelivered: false }) })
  expect(first).not.toHaveProperty('redelivered')
  const stored = recordOf({ kind: 'parked' }, { delivery: toDelivery({}, { producedAt }) })
  expect(stored).not.toHaveProperty('messageAgeMs')
  const dead = { kind: 'dead', reason: 'fatal', attempt: 1, repeated: undefined } as const
  expect(recordOf(dead)).not.toHaveProperty('repeated')
})

test.each<[Outcome, readonly string[]]>([
  [processed, []],
  [{ kind: 'dead', reason: 'fatal', attempt: 1 }, ['reason']],
  [{ kind: 'dead', reason: 'fatal', attempt: 1, error: undefined }, ['reason']],
  [{ kind: 'dead', reason: 'fatal', attempt: 1, error }, ['reason', 'err']],
  [{ kind: 'not-due', delayMs: 5, cause: 'lane-waits' }, ['reason', 'cause']],
])('the line of %j has no fields without a value', (outcome, more) => {
  const fields = report(outcome)[0]?.[1] ?? {}
  const common = ['consumer', 'eventId', 'keyHash', 'attempt', 'source', 'outcome']
  expect(Object.keys(fields)).toEqual([...common, ...more])
  if ('reason' in outcome) expect(fields).toHaveProperty('reason', outcome.reason)
  if (more.includes('err')) {
    expect(fields).toHaveProperty('err.message', 'the shop is closed')
  }
})

const closing = { kind: 'abandoned', reason: 'closing' } as const
const failed = { kind: 'failed', attempt: 1, delayMs: 5, error, cause: 'handler-failed' } as const
const large = { ...failed, kind: 'not-stored' } as const
const conflict = { kind: 'conflict', policy: 'ack', error } as const
const dead = { kind: 'dead', reason: 'fatal', attempt: 1, error } as const

test.each<[Outcome, string, string]>([
  [large, 'error', 'raise `maxStoredBytes` or configure `deadLetter`'],
  [conflict, 'warn', 'reused with another payload'],
  [failed, 'warn', 'the event is retried'],
  [{ ...closing, stillRunning: true }, 'warn', 'the broker redelivers it'],
])('the line for a broker: %j', (outcome, level, text) => {
  expect(report(outcome)).toEqual([[level, expect.anything(), expect.stringContaining(text)]])
})

test.each<[string, Outcome, string, string]>([
  ['an answer that was thrown', { ...failed, error: 'an answer' }, 'debug', 'delivery settled'],
  ['a failed handler', failed, 'warn', 'its key is free again'],
  ['a request that was not started', closing, 'debug', 'delivery settled'],
  ['a request that still runs', { ...closing, stillRunning: true }, 'warn', 'request abandoned'],
  ['a lost lease', { kind: 'abandoned', reason: 'lease-lost' }, 'warn', 'request abandoned'],
  ['a key with another payload', conflict, 'debug', 'delivery settled'],
  ['a request that is too large', large, 'warn', 'raise `maxStoredBytes` of the inbox'],
  ['a refused request', { ...dead, attempt: 0 }, 'debug', 'delivery settled'],
  ['a dead letter', dead, 'error', 'event dead-lettered'],
  [
    'a dead letter without a run or an error',
    { kind: 'dead', reason: 'fatal', attempt: 0 },
    'error',
    'event dead-lettered',
  ],
  ['a processed request', processed, 'debug', 'delivery settled'],
])('the line for a caller of %s', (_, outcome, level, text) => {
  const lines = report(outcome, { answer: 'an answer' })
  expect(lines).toEqual([[level, expect.anything(), expect.stringContaining(text)]])
})

test('a parked run has no caller, so its line is that of any event', () => {
  const lines = report(failed, { answer: error }, { parked: true })
  expect(lines).toEqual([['warn', expect.anything(), 'handler failed, the event is retried']])
})
