import { describe, expect, test } from 'vitest'
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
  expect(logged).toMatchObject([{ err: { name: 'TypeError', message: 'a bug in isFatal' } }])
})

test('without isFatal only the errors that onceward knows are fatal', () => {
  const before = logged.length
  const decision = decideRetry({ ...options, isFatal: undefined }, 1, new SyntaxError('no'))
  expect(decision).toMatchObject({ kind: 'retry' })
  expect(logged).toHaveLength(before)
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

describe('errors in logs', () => {
  // Red before: stack and causes were left out.
  test('have the shape of pino: type, message, stack, code and causes, and nothing else', () => {
    const inner = Object.assign(new Error('no'), { code: '23505', detail: 'Key (card)=(4111)' })
    const described = describeError(new TypeError('not stored', { cause: inner }))
    expect(described).toStrictEqual({
      ...{ type: 'TypeError', name: 'TypeError', message: 'not stored' },
      stack: expect.stringMatching(/^TypeError: not stored\n {4}at /),
      cause: {
        ...{ type: 'Error', name: 'Error', message: 'no', code: '23505' },
        stack: expect.stringMatching(/^Error: no\n/),
      },
    })
    expect(JSON.stringify(described)).not.toContain('4111')
  })

  test('are short texts for other values', () => {
    const text = (name: string, message: string) => ({ type: name, name, message })
    expect(describeError('x'.repeat(300))).toEqual(text('string', 'x'.repeat(200)))
    expect(describeError(undefined)).toEqual(text('undefined', 'undefined'))
    expect(describeError(Object.create(null))).toEqual(
      text('object', expect.stringContaining('cannot be read')),
    )
  })

  test('are bounded: circles of causes, long chains, many errors in one, long texts', () => {
    const circle = new Error('circle')
    circle.cause = circle
    const many = new AggregateError(
      Array.from({ length: 1_000 }, (_, n) => new Error(`${n}`, { cause: circle })),
    )
    let chain = new Error('end')
    for (let n = 0; n < 1_000; n += 1) chain = new Error(`link ${n}`, { cause: chain })
    const long = new Error('x'.repeat(1_000_000))
    for (const error of [circle, many, chain, long]) {
      expect(JSON.stringify(describeError(error)).length).toBeLessThan(60_000)
    }
    expect(describeError(many).aggregateErrors).toHaveLength(5)
  })
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
