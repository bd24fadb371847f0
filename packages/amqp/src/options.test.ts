import { ConfigurationError } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { type ConsumeAmqpOptions, DEFAULTS, resolveSettings } from './options.ts'

const queue = 'orders'
const { settings } = handMadeGuard().port
const TARGET = { exchange: 'shop.dead', routingKey: '' }

function problemsOf(options: object, guard: object = {}): string {
  try {
    resolveSettings(options as ConsumeAmqpOptions, { ...settings, ...guard })
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigurationError)
    return (error as Error).message
  }
  return ''
}

test('the defaults', () => {
  expect(resolveSettings({ queue }, { ...settings, concurrency: 8 })).toEqual({
    queue,
    deadLetter: undefined,
    levelsMs: DEFAULTS.retryLevelsMs,
    holdMs: DEFAULTS.holdMs,
    oldestMs: DEFAULTS.consumerTimeoutMs - 120_000 - settings.deadlineMs,
    prefetch: 24,
    isPrefetchFixed: false,
    consumer: {},
    deadLetterPolicy: false,
    batchSize: 24,
    lingerMs: 0,
    drainMs: DEFAULTS.drainMs,
  })
})

test('a batch guard has a linger time', () => {
  const batch = { ...settings, transaction: 'batch' as const }
  const resolved = resolveSettings({ queue }, batch)
  expect(resolved).toMatchObject({ prefetch: 200, batchSize: 100, lingerMs: DEFAULTS.lingerMs })
  const small = resolveSettings({ queue, batch: { size: 10, lingerMs: 7 } }, batch)
  expect(small).toMatchObject({ prefetch: 20, batchSize: 10, lingerMs: 7 })
  expect(resolveSettings({ queue, prefetch: 5 }, batch).batchSize).toBe(5)
})

test.each([
  ['no queue', {}, '`queue`'],
  ['a name that is too long for its delay queues', { queue: 'q'.repeat(250) }, 'at most 238 bytes'],
  ['prefetch 0, which means no limit', { queue, prefetch: 0 }, '`prefetch`'],
  ['noAck', { queue, noAck: true }, '`noAck`'],
  ['noAck of the consumer', { queue, consumer: { noAck: true } }, '`noAck`'],
  ['an empty list of levels', { queue, retryLevelsMs: [] }, '`retryLevelsMs`'],
  ['a level twice', { queue, retryLevelsMs: [100, 100] }, 'each level once'],
  ['a level that is not an integer', { queue, retryLevelsMs: [100.5] }, 'integer from 100'],
  // A message that waits for a minute went round the broker and the store 270 times a second.
  ['a level of a millisecond', { queue, retryLevelsMs: [1, 5_000] }, 'integer from 100'],
  ['a hold of an hour', { queue, holdMs: 3_600_000 }, '`holdMs`'],
  ['a target without its routing key', { queue, deadLetter: { exchange: 'x' } }, '`routingKey`'],
  ['a target of both kinds', { queue, deadLetter: { ...TARGET, queue: 'dead' } }, 'got both'],
  [
    'a routing key that cannot be sent',
    { queue, deadLetter: { ...TARGET, routingKey: 'k'.repeat(256) } },
    '`routingKey`',
  ],
  [
    'an exchange that cannot be',
    { queue, deadLetter: { ...TARGET, exchange: 'é'.repeat(128) } },
    '255',
  ],
  ['an unknown dead-letter place', { queue, deadLetter: 'redrive' }, "or 'dlx'"],
  ['a controller instead of its signal', { queue, signal: new AbortController() }, '.signal'],
  ['a consumer that is no object', { queue, consumer: 'tag' }, '`consumer` to be an object'],
  ['a text for a switch', { queue, deadLetterPolicy: 'no' }, '`deadLetterPolicy` to be true or'],
  ['a drain of a day', { queue, drainMs: 86_400_000 }, '`drainMs`'],
])('refuses %s', (_what, options, expected) => {
  expect(problemsOf(options)).toContain(expected)
})

test('a guard without an inbox needs a place for dead letters', () => {
  expect(problemsOf({ queue }, { hasInbox: false })).toContain('`deadLetter`')
  expect(problemsOf({ queue, deadLetter: 'dlx' }, { hasInbox: false })).toBe('')
})

test('a queue cannot be its own dead-letter queue', () => {
  expect(problemsOf({ queue, deadLetter: { queue } })).toContain('come back again and again')
  const byDefault = { exchange: '', routingKey: queue }
  expect(problemsOf({ queue, deadLetter: byDefault })).toContain('come back again and again')
})

// Red when a name that is there counts, whatever it is: dead letters went nowhere, or the start was tried again for ever.
test('names that are undefined do not make a target', () => {
  const targetOf = (deadLetter: object) =>
    resolveSettings({ queue, deadLetter } as unknown as ConsumeAmqpOptions, settings).deadLetter
  expect(targetOf({ ...TARGET, queue: undefined })).toStrictEqual(TARGET)
  const dead = { queue: 'orders.dead' }
  expect(targetOf({ ...dead, exchange: undefined, routingKey: undefined })).toStrictEqual(dead)
})

// Red when they are sorted as texts, or left as they are: the level for a wait is the first that is long enough.
test('delay levels are sorted by their length, and the list of the user stays as it is', () => {
  const retryLevelsMs = Object.freeze([5_000, 600_000, 1_000, 30_000])
  const { levelsMs } = resolveSettings({ queue, retryLevelsMs }, settings)
  expect(levelsMs).toEqual([1_000, 5_000, 30_000, 600_000])
})

test('a handler cannot run longer than the consumer timeout of the server', () => {
  expect(problemsOf({ queue }, { deadlineMs: 1_700_000 })).toContain('consumer_timeout')
  expect(problemsOf({ queue }, { deadlineMs: 1_680_001 })).toContain('to be at most 1680000, two')
  expect(problemsOf({ queue }, { deadlineMs: 1_680_000 })).toBe('')
  const longer = { queue, consumerTimeoutMs: 3_600_000 }
  expect(problemsOf(longer, { deadlineMs: 1_700_000 })).toBe('')
})

test('a consumer timeout leaves a handler a second beside the margin', () => {
  const quick = { deadlineMs: 1_000 }
  expect(problemsOf({ queue, consumerTimeoutMs: 121_000 }, quick)).toBe('')
  expect(problemsOf({ queue, consumerTimeoutMs: 120_999 }, { deadlineMs: 999 })).toBe(
    'Expected `consumerTimeoutMs` to be an integer from 121000 to 4294967295, got `120999` (number). Units are ' +
      'milliseconds.',
  )
})

test('an error names every problem, with rule, value, type and unit', () => {
  expect(problemsOf({ queue: '', prefetch: -1, holdMs: '1' }).split('\n')).toEqual([
    'Expected `queue` to be a name of at most 238 bytes, got `` (string).',
    'Expected `holdMs` to be an integer from 0 to 60000, got `1` (string). Units are milliseconds.',
    'Expected `prefetch` to be an integer from 1 to 65535, got `-1` (number). Units are messages.',
  ])
})
