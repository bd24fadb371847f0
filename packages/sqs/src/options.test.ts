import { ConfigurationError } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import {
  type ConsumeSqsOptions,
  DEFAULTS,
  isFifo,
  receiveAttributes,
  resolveSettings,
} from './options.ts'

const queueUrl = 'https://sqs.eu-west-1.amazonaws.com/000000000000/orders'
const { settings } = handMadeGuard().port

function problemsOf(options: object, guard: object = {}): string {
  try {
    resolveSettings(options as ConsumeSqsOptions, { ...settings, ...guard })
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigurationError)
    return (error as Error).message
  }
  return ''
}

test('the visibility timeout is a tenth longer than the lease, and is renewed at a third of the shorter one', () => {
  expect(resolveSettings({ queueUrl }, settings)).toEqual({
    queueUrl,
    fifo: false,
    deadLetter: undefined,
    visibilityMs: 33_000,
    renewMs: 10_000,
    batchSize: DEFAULTS.batchSize,
    lingerMs: 0,
    drainMs: DEFAULTS.drainMs,
    longPollMs: DEFAULTS.longPollMs,
  })
  const short = { ...settings, leaseMs: 1_000 }
  expect(resolveSettings({ queueUrl }, short)).toMatchObject({ visibilityMs: 2_000, renewMs: 333 })
  const odd = resolveSettings({ queueUrl, visibilityMs: 1_500 }, settings)
  expect(odd).toMatchObject({ visibilityMs: 2_000, renewMs: 666 })
})

test('the longest visibility timeout is twelve hours, whatever the lease', () => {
  const long = { ...settings, leaseMs: 43_000_000 }
  const twelveHours = { visibilityMs: 43_200_000 }
  expect(resolveSettings({ queueUrl }, long)).toMatchObject(twelveHours)
  expect(resolveSettings({ queueUrl, ...twelveHours }, settings)).toMatchObject(twelveHours)
})

test('the defaults are those of every broker, and the longest long poll of SQS', () => {
  expect(DEFAULTS).toEqual({ batchSize: 100, lingerMs: 20, drainMs: 20_000, longPollMs: 20_000 })
  expect(Object.isFrozen(DEFAULTS)).toBe(true)
  const own = { batch: { size: 7 }, drainMs: 8, longPollMs: 0 }
  expect(resolveSettings({ queueUrl, ...own }, settings)).toMatchObject({
    ...{ batchSize: 7, drainMs: 8, longPollMs: 0 },
  })
})

test('a receive asks for everything that identifies and orders a message', () => {
  expect(receiveAttributes).toEqual({
    MessageSystemAttributeNames: ['All'],
    MessageAttributeNames: ['All'],
  })
})

test('a FIFO queue is known by its name', () => {
  expect([isFifo(`${queueUrl}.fifo`), isFifo(queueUrl)]).toEqual([true, false])
  expect(isFifo('https://orders.fifo.example/1/orders')).toBe(false)
  expect(resolveSettings({ queueUrl: `${queueUrl}.fifo` }, settings).fifo).toBe(true)
})

test('a batch guard has a linger time', () => {
  const batch = { ...settings, transaction: 'batch' as const }
  expect(resolveSettings({ queueUrl }, batch).lingerMs).toBe(DEFAULTS.lingerMs)
  expect(resolveSettings({ queueUrl, batch: { lingerMs: 7 } }, settings).lingerMs).toBe(7)
})

test('an error names every problem, with rule, value, type and unit', () => {
  const options = {
    queueUrl: 'orders',
    deadLetter: { queueUrl: 5 },
    visibilityMs: 30,
    longPollMs: 60_000,
    drainMs: -1,
    batch: { size: 101, lingerMs: 0.5 },
  }
  expect(problemsOf(options).split('\n')).toEqual([
    'Expected `queueUrl` to be the URL of a queue, got `orders` (string).',
    'Expected `deadLetter.queueUrl` to be the URL of a queue, got `5` (number).',
    'Expected `visibilityMs` to be an integer from 1000 to 43200000, got `30` (number). Units are milliseconds.',
    'Expected `longPollMs` to be an integer from 0 to 20000, got `60000` (number). Units are milliseconds.',
    'Expected `drainMs` to be an integer from 0 to 43200000, got `-1` (number). Units are milliseconds.',
    'Expected `batch.lingerMs` to be an integer from 0 to 60000, got `0.5` (number). Units are milliseconds.',
    'Expected `batch.size` to be an integer from 1 to 100, got `101` (number). Units are messages.',
  ])
})

test.each<[string, unknown]>([
  ['nothing', undefined],
  ['null', null],
  ['a text without a scheme', 'sqs.eu-west-1.amazonaws.com/1/orders'],
  ['another scheme', 'ftp://sqs.test/1/orders'],
  ['a scheme that ends alike', 'xhttp://sqs.test/1/orders'],
  ['a user', 'https://app@sqs.test/1/orders'],
  ['a password', 'https://:hunter2@sqs.test/1/orders'],
  ['an object of the class URL', new URL(queueUrl)],
])('the URL of a queue is not %s', (_what, url) => {
  expect(problemsOf({ queueUrl: url })).toMatch(/^Expected `queueUrl` to be the URL of a queue/)
  expect(problemsOf({ queueUrl, deadLetter: { queueUrl: url } })).toMatch(
    /^Expected `deadLetter.queueUrl` to be the URL of a queue/,
  )
})

test('the URL of a queue may be that of an emulator', () => {
  const local = 'http://127.0.0.1:9324/000000000000/orders'
  const deadLetter = { queueUrl: `${local}-dead` }
  expect(resolveSettings({ queueUrl: local, deadLetter }, settings)).toMatchObject({
    ...{ queueUrl: local, deadLetter },
  })
})

test.each([null, 5, 'elsewhere', true])('%s is no place for dead letters', (deadLetter) => {
  expect(problemsOf({ queueUrl, deadLetter })).toMatch(
    /^Expected `deadLetter` to be `{ queueUrl }` or 'redrive', got /,
  )
})

// Red before: a TypeError after the consumer had been made.
test('a controller instead of its signal is refused', () => {
  const signal = new AbortController()
  expect(problemsOf({ queueUrl, signal })).toMatch(/`signal`.*`controller\.signal`/)
  expect(problemsOf({ queueUrl, signal: signal.signal })).toBe('')
})

test('a guard without an inbox needs a place for dead letters', () => {
  expect(problemsOf({ queueUrl }, { hasInbox: false })).toMatch(/Expected `deadLetter`/)
  expect(problemsOf({ queueUrl, deadLetter: 'redrive' }, { hasInbox: false })).toBe('')
  const deadLetter = { queueUrl: `${queueUrl}-dead` }
  expect(problemsOf({ queueUrl, deadLetter }, { hasInbox: false })).toBe('')
  expect(problemsOf({ queueUrl }, { hasInbox: true })).toBe('')
})

test('a queue cannot be its own dead-letter queue', () => {
  expect(problemsOf({ queueUrl, deadLetter: { queueUrl } })).toMatch(/another queue/)
  expect(problemsOf({ queueUrl, deadLetter: { queueUrl: `${queueUrl}-dead` } })).toBe('')
  const wrong = { queueUrl: 'orders' }
  expect(problemsOf({ ...wrong, deadLetter: wrong }).split('\n')).toEqual([
    expect.stringMatching(/^Expected `queueUrl` to be/),
    expect.stringMatching(/^Expected `deadLetter.queueUrl` to be the URL/),
  ])
})

test('a handler cannot run longer than SQS can hide a message', () => {
  expect(problemsOf({ queueUrl }, { deadlineMs: 43_200_000 })).toMatch(/12 hours/)
  expect(problemsOf({ queueUrl }, { deadlineMs: 43_199_999 })).toBe('')
})
