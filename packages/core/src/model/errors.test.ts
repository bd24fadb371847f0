import { describe, expect, test } from 'vitest'
import {
  CommitUnknownError,
  ConfigurationError,
  ConflictError,
  concernsStore,
  DeadlineExceededError,
  describeError,
  EnvelopeError,
  FatalError,
  InvalidPayloadError,
  LeaseLostError,
  MissingKeyError,
  messageOf,
  OncewardError,
  RetryableError,
  StoreUnavailableError,
  toReadableError,
} from './errors.ts'

const CLASSES = [
  ...[RetryableError, FatalError, InvalidPayloadError, MissingKeyError, ConflictError],
  ...[LeaseLostError, DeadlineExceededError, CommitUnknownError, StoreUnavailableError],
  ...[ConfigurationError, EnvelopeError],
]

const refuse = (): never => {
  throw new RangeError('do not look')
}
const withField = (name: string, value: unknown): Error =>
  Object.defineProperty(new Error('why'), name, { value })
const unreadable = (name: string): Error =>
  Object.defineProperty(new Error('why'), name, { get: refuse })
/** As another copy of the package makes its errors. */
const foreign = (fields: object): unknown => ({ [Symbol.for('onceward.error')]: true, ...fields })

describe('an error of onceward', () => {
  test('is known by its mark, whatever else is thrown', () => {
    const thrown = [new FatalError('why'), new Error('why'), {}, null, undefined, 'text', refuse]
    expect(thrown.map((each) => OncewardError.is(each))).toEqual([true, ...Array(6).fill(false)])
  })

  test('of another copy is an instance of the class that has its code', () => {
    const error = foreign({ code: 'ONCEWARD_FATAL' })
    expect(error).toBeInstanceOf(OncewardError)
    expect(error).toBeInstanceOf(FatalError)
    expect(error).not.toBeInstanceOf(RetryableError)
    expect(foreign({})).toBeInstanceOf(OncewardError)
    expect(foreign({})).not.toBeInstanceOf(FatalError)
    expect({ code: 'ONCEWARD_FATAL' }).not.toBeInstanceOf(FatalError)
  })

  test('of another copy is known for each code', () => {
    for (const Class of CLASSES) {
      const { code } = new Class('why')
      expect(CLASSES.filter((each) => (foreign({ code }) as object) instanceof each)).toEqual([
        Class,
      ])
    }
  })

  test('of a derived class is an instance of both, and its base is none of the derived', () => {
    class Declined extends FatalError {}
    expect(new Declined('why')).toBeInstanceOf(Declined)
    expect(new Declined('why')).toBeInstanceOf(FatalError)
    expect(new FatalError('why')).not.toBeInstanceOf(Declined)
  })

  test('may be retryable without a delay', () => {
    expect(new RetryableError('later').afterMs).toBeUndefined()
    expect(new RetryableError('later', { afterMs: 5 }).afterMs).toBe(5)
  })

  test('concerns every event if the store is down or does not fit', () => {
    expect(concernsStore(new StoreUnavailableError('why'))).toBe(true)
    expect(concernsStore(new ConfigurationError('why'))).toBe(true)
    expect(concernsStore(new FatalError('why'))).toBe(false)
    expect(concernsStore(new Error('why'))).toBe(false)
  })
})

describe('a described error', () => {
  test('has its name, message, code and stack', () => {
    const error = Object.assign(new RangeError('why'), { code: 'E1', password: 'secret' })
    expect(describeError(error)).toEqual({
      ...{ type: 'RangeError', name: 'RangeError', message: 'why', code: 'E1' },
      stack: expect.stringContaining('RangeError: why'),
    })
  })

  test('keeps a numeric code, and leaves out a code of any other type and a stack that is no text', () => {
    expect(describeError(withField('code', 7)).code).toBe(7)
    expect(describeError(withField('code', {}))).not.toHaveProperty('code')
    expect(describeError(withField('code', true))).not.toHaveProperty('code')
    expect(describeError(withField('stack', 5))).not.toHaveProperty('stack')
    expect(describeError(new Error('why'))).not.toHaveProperty('cause')
  })

  test('is bounded', () => {
    const whole = 'm'.repeat(2_000)
    expect(describeError(new Error(whole)).message).toBe(whole)
    expect(describeError(new Error(`${whole}n`)).message).toBe(`${whole}…`)
    expect(describeError(withField('stack', 's'.repeat(8_001))).stack).toHaveLength(8_001)
    expect(describeError(withField('stack', 's'.repeat(8_001))).stack).toMatch(/s…$/)
    expect(describeError(withField('name', 'n'.repeat(200))).name).toHaveLength(100)
    expect(describeError(withField('code', 'c'.repeat(200))).code).toHaveLength(100)
    expect(describeError(`t${'x'.repeat(500)}`).message).toHaveLength(200)
  })

  test('has no half of a character at its cut', () => {
    expect(describeError(new Error(`x${'😀'.repeat(2_000)}`)).message.isWellFormed()).toBe(true)
  })

  test('has up to five causes', () => {
    let error = new Error('0')
    for (let depth = 1; depth < 10; depth++) error = new Error(`${depth}`, { cause: error })
    const messages: string[] = []
    for (let each = describeError(error).cause; each !== undefined; each = each.cause) {
      messages.push(each.message)
    }
    expect(messages).toEqual(['8', '7', '6', '5', '4'])
  })

  test('has up to five errors of an aggregate, without their causes', () => {
    const errors = Array.from({ length: 7 }, (_, at) => new Error(`${at}`, { cause: 'why' }))
    const { aggregateErrors } = describeError(new AggregateError(errors))
    expect(aggregateErrors?.map(({ message }) => message)).toEqual(['0', '1', '2', '3', '4'])
    expect(aggregateErrors?.[0]).not.toHaveProperty('cause')
    expect(describeError(new AggregateError([]))).not.toHaveProperty('aggregateErrors')
  })

  test('of what is no error says what was thrown', () => {
    expect(describeError(undefined)).toEqual({
      ...{ type: 'undefined', name: 'undefined', message: 'undefined' },
    })
    expect(describeError(5)).toEqual({ type: 'number', name: 'number', message: '5' })
  })

  test('of what cannot be read says so', () => {
    expect(describeError(Object.create(null))).toEqual({
      ...{ type: 'object', name: 'object' },
      message: expect.stringContaining('cannot be read'),
    })
  })
})

test.each<[string, unknown, boolean]>([
  ['an error', new Error('why'), true],
  ['a text', 'why', true],
  ['undefined', undefined, true],
  ['an error with an odd code', withField('code', {}), true],
  ['an object without a text', Object.create(null), false],
  ['an error whose message throws', unreadable('message'), false],
])('what is thrown is kept if it can be described: %s', (_name, thrown, isKept) => {
  const readable = toReadableError(thrown)
  if (isKept) expect(readable).toBe(thrown)
  else expect(readable).toHaveProperty('message', expect.stringContaining('cannot be read'))
})

class ConnectTimeoutError extends Error {}

test.each<[string, unknown, string]>([
  ['a message', new Error('no'), 'no'],
  ['no message', new ConnectTimeoutError(), 'ConnectTimeoutError'],
  ['no error', 'text', 'text'],
  ['nothing', undefined, 'undefined'],
  ['null', null, 'null'],
  ['members', new AggregateError([new Error('a'), 'b', new TypeError()]), 'a, b, TypeError'],
  ['members and a message', new AggregateError([new Error('a')], 'all failed'), 'all failed'],
  ['a member with members', new AggregateError([new AggregateError([1], 'in')]), 'in'],
  [
    'a member with unnamed members',
    new AggregateError([new AggregateError([1])]),
    'AggregateError',
  ],
])('what is thrown with %s says', (_what, error, message) => {
  expect(messageOf(error)).toBe(message)
})

test('at most a hundred members are named', () => {
  const members = Array.from({ length: 101 }, (_, index) => new Error(`${index}`))
  expect(messageOf(new AggregateError(members)).split(', ')).toHaveLength(100)
})
