import { expect, test, vi } from 'vitest'
import { systemRuntime } from '../concurrency/system-runtime.ts'
import { silent } from '../fixtures/inbox.ts'
import { resolveOptions } from '../guard/resolve-options.ts'
import { memoryInbox } from '../memory/index.ts'
import {
  FatalError,
  InvalidPayloadError,
  MissingKeyError,
  RetryableError,
} from '../model/errors.ts'
import type { InboxGuardOptions } from '../options/options.ts'
import { callerFailure, decideRetry, failureOutcome, retryDelayMs } from './retry-rule.ts'

type Given = Partial<InboxGuardOptions<unknown, undefined>>

const RETRY = { attempts: 3, baseMs: 1_000, maxMs: 60_000 }
const optionsOf = (given: Given = {}) =>
  resolveOptions({
    ...{ consumer: 'billing', inbox: memoryInbox(), logger: silent, retry: RETRY },
    ...{ runtime: { ...systemRuntime, random: () => 0 }, ...given },
  })
const why = new Error('why')
const after = (afterMs: number): RetryableError => new RetryableError('later', { afterMs })

test.each<[string, unknown, number]>([
  ['asks for a delay', after(7_000), 7_000],
  ['asks for no delay', after(0), 0],
  ['asks for more than `retry.maxMs`', after(100_000), 60_000],
  ['asks for a negative delay', after(-1), 500],
  ['computed its delay from nothing', after(Number.NaN), 500],
  ['asks for ever', after(Number.POSITIVE_INFINITY), 500],
  ['is retryable without a delay', new RetryableError('later'), 500],
  ['is any other', Object.assign(new Error('why'), { afterMs: 7_000 }), 500],
])('an error that %s waits', (_name, error, delayMs) => {
  expect(retryDelayMs(optionsOf(), 1, error)).toBe(delayMs)
})

test('the attempts end with the last one, and at once for an error that no retry can fix', () => {
  expect(decideRetry(optionsOf(), 2, why)).toEqual({ kind: 'retry', delayMs: 1_000 })
  expect(decideRetry(optionsOf(), 3, why)).toEqual({ kind: 'bury', reason: 'attempts-spent' })
  for (const error of [new FatalError(''), new InvalidPayloadError(''), new MissingKeyError('')]) {
    expect(decideRetry(optionsOf(), 1, error)).toEqual({ kind: 'bury', reason: 'fatal' })
  }
})

test('an error of onceward that a retry may fix is retried, and a mere code says nothing', () => {
  const error = vi.fn()
  const options = optionsOf({ logger: { ...silent, error } })
  expect(decideRetry(options, 1, after(7_000))).toEqual({ kind: 'retry', delayMs: 7_000 })
  expect(decideRetry(options, 1, { code: 'ONCEWARD_FATAL' })).toHaveProperty('kind', 'retry')
  expect(error).not.toHaveBeenCalled()
})

test('isFatal decides about errors of others', () => {
  const isFatal = (error: unknown): boolean => error === why
  expect(decideRetry(optionsOf({ isFatal }), 1, why)).toEqual({ kind: 'bury', reason: 'fatal' })
  expect(decideRetry(optionsOf({ isFatal }), 1, new Error('other'))).toHaveProperty('kind', 'retry')
})

test.each<[string, () => unknown, object | undefined]>([
  ['answers nothing', () => undefined, undefined],
  ['promises true', async () => true, { answered: 'a promise' }],
  ['rejects', () => Promise.reject(why), { answered: 'a promise' }],
  ['answers a text', () => 'yes', { answered: 'string' }],
  [
    'throws',
    () => {
      throw why
    },
    { err: expect.objectContaining({ message: 'why' }) },
  ],
])('an isFatal that %s buries nothing', async (_name, answer, fields) => {
  const error = vi.fn()
  const isFatal = answer as () => boolean
  const options = optionsOf({ isFatal, logger: { ...silent, error } })
  expect(decideRetry(options, 1, new Error('other'))).toHaveProperty('kind', 'retry')
  expect(error.mock.calls.map(([logged]) => logged)).toEqual(
    fields === undefined ? [] : [expect.objectContaining(fields)],
  )
  // A rejection that nobody handles would fail the run of the tests.
  await new Promise((resolve) => setImmediate(resolve))
})

test('a failure without a record is retried or dead-lettered by its outcome', () => {
  expect(failureOutcome(optionsOf(), 1, why)).toEqual({
    ...{ kind: 'failed', attempt: 1, delayMs: 500, error: why, cause: 'handler-failed' },
  })
  expect(failureOutcome(optionsOf(), 3, why)).toEqual({
    ...{ kind: 'dead', reason: 'attempts-spent', attempt: 3, error: why },
  })
})

test('a failure of a run whose caller retries is due at once, whatever the attempt and the error', () => {
  const callerRetries = { isAnswer: () => false }
  const options = { ...optionsOf(), callerRetries } as ReturnType<typeof optionsOf>
  for (const error of [why, new FatalError('no'), after(7_000)]) {
    expect(failureOutcome(options, 9, error)).toEqual(callerFailure(9, error))
    expect(callerFailure(9, error)).toEqual({
      ...{ kind: 'failed', attempt: 9, delayMs: 0, error, cause: 'handler-failed' },
    })
  }
})
