import { expect, test } from 'vitest'
import { systemRuntime } from '../concurrency/system-runtime.ts'
import { silent } from '../fixtures/inbox.ts'
import { troubled } from '../fixtures/troubled.ts'
import { resolveOptions } from '../guard/resolve-options.ts'
import { memoryInbox, toDelivery } from '../memory/index.ts'
import {
  describeError,
  FatalError,
  InvalidPayloadError,
  MissingKeyError,
  RetryableError,
} from '../model/errors.ts'
import type { VerdictAnswer } from '../model/inbox.ts'
import { decideRetry, retryDelayMs } from '../settlement/retry-rule.ts'

const logged: object[] = []
const options = resolveOptions({
  consumer: 'billing',
  inbox: memoryInbox(),
  isFatal: (error) => {
    if (error instanceof RangeError) throw new TypeError('a bug in isFatal')
    return error instanceof SyntaxError
  },
  logger: { ...silent, error: (fields: object) => void logged.push(fields) },
  retry: { attempts: 3, baseMs: 1_000, maxMs: 60_000 },
  runtime: { ...systemRuntime, random: () => 0.5 },
})

test.each([
  [1, new Error('no'), { kind: 'retry', delayMs: 750 }],
  [2, new Error('no'), { kind: 'retry', delayMs: 1_500 }],
  [3, new Error('no'), { kind: 'bury', reason: 'attempts-spent' }],
  [4, new Error('no'), { kind: 'bury', reason: 'attempts-spent' }],
  [1, new FatalError('no'), { kind: 'bury', reason: 'fatal' }],
  [3, new FatalError('no'), { kind: 'bury', reason: 'fatal' }],
  [1, new InvalidPayloadError('no'), { kind: 'bury', reason: 'fatal' }],
  [1, new MissingKeyError('no'), { kind: 'bury', reason: 'fatal' }],
  [1, new RetryableError('no'), { kind: 'retry', delayMs: 750 }],
  [1, new SyntaxError('no'), { kind: 'bury', reason: 'fatal' }],
  [1, undefined, { kind: 'retry', delayMs: 750 }],
])('after attempt %i that threw %s the decision is %j', (attempt, error, decision) => {
  expect(decideRetry(options, attempt, error)).toEqual(decision)
})

test('an isFatal that throws is logged, and the error counts as retryable', () => {
  expect(decideRetry(options, 1, new RangeError('no'))).toEqual({ kind: 'retry', delayMs: 750 })
  expect(logged).toEqual([{ err: { name: 'TypeError', message: 'a bug in isFatal' } }])
})

test('without isFatal only the errors that onceward knows are fatal', () => {
  const decision = decideRetry({ ...options, isFatal: undefined }, 1, new SyntaxError('no'))
  expect(decision).toMatchObject({ kind: 'retry' })
})

test.each([
  [0, 0],
  [5_000, 5_000],
  [60_001, 60_000],
])('an error with afterMs %i is retried after %i ms', (afterMs, delayMs) => {
  expect(retryDelayMs(options, 1, new RetryableError('later', { afterMs }))).toBe(delayMs)
})

// Red before: NaN became the delay, the store refused it, and the event ran again endlessly.
test.each([Number.NaN, -1, Number.POSITIVE_INFINITY, '5' as unknown as number])(
  'an error with afterMs %s gets the ordinary back-off',
  (afterMs) => {
    const ordinary = retryDelayMs(options, 1, new Error('later'))
    expect(retryDelayMs(options, 1, new RetryableError('later', { afterMs }))).toBe(ordinary)
  },
)

test('logs contain the name, message and code of an error, and a short text for other values', () => {
  expect(describeError(new TypeError('no', { cause: 'secret' }))).toStrictEqual({
    name: 'TypeError',
    message: 'no',
  })
  const coded = Object.assign(new Error('no'), { code: '23505', detail: 'Key (card)=(4111)' })
  expect(describeError(coded)).toEqual({ name: 'Error', message: 'no', code: '23505' })
  expect(describeError('x'.repeat(300))).toEqual({ name: 'string', message: 'x'.repeat(200) })
  expect(describeError(undefined)).toEqual({ name: 'undefined', message: 'undefined' })
})

test('a verdict about a row with another owner changes nothing, and the stored state decides', async () => {
  const lost = async (): Promise<readonly VerdictAnswer[]> => ['lost']
  for (const error of [new Error('not yet'), new FatalError('never')]) {
    const { clock, crash, guard, inbox, records } = troubled(
      () => {
        throw error
      },
      { session: () => ({ bury: lost }), transaction: () => ({ rollbackAndFail: lost }) },
    )
    await crash(toDelivery('a', { messageId: 'a' }))
    clock.advance(5_000)
    const settlement = await guard.process({
      ...toDelivery('a', { messageId: 'a' }),
      redelivered: true,
    })
    // The stored state: started just now, by its owner.
    const until = clock.runtime.now() + 5_000
    const cause = 'running-elsewhere'
    expect(settlement).toEqual({ kind: 'defer', reason: 'in-progress', until, cause })
    expect(records).toMatchObject([{ attempt: 0 }])
    expect(inbox.deadLetters()).toEqual([])
    await guard.close()
  }
})

test('a verdict without an open transaction is recorded too', async () => {
  const { clock, guard } = troubled(
    () => {
      throw Object.assign(new Error('deadlock'), { code: '40P01' })
    },
    { transaction: () => ({ status: () => 'failed' }) },
    { retry: { attempts: 2 } },
  )
  const delivery = toDelivery('a', { messageId: 'a' })
  expect(await clock.until(guard.process(delivery))).toMatchObject({ reason: 'failed' })
  clock.advance(1_000)
  const dead = { kind: 'dead-letter', reason: 'attempts-spent', error: { code: '40P01' } }
  expect(await clock.until(guard.process(delivery))).toMatchObject(dead)
  await guard.close()
})
