import { ConfigurationError } from '@onceward/core'
import type { GuardSettings } from '@onceward/core/adapter'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { type ConsumeKafkaOptions, resolveConsumerSettings, resolveSettings } from './options.ts'

const producer = { send: async () => [] }

function settingsOf(
  options: Partial<ConsumeKafkaOptions> = {},
  guard: Partial<GuardSettings> = {},
) {
  return resolveConsumerSettings(
    { topics: ['orders'], ...options },
    handMadeGuard(guard).port.settings,
  )
}

function problemsOf(
  options: Partial<ConsumeKafkaOptions>,
  guard: Partial<GuardSettings> = {},
): string {
  try {
    settingsOf(options, guard)
    return ''
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    return error.message
  }
}

test('the default group is the consumer of the guard, and reads from the beginning', () => {
  expect(settingsOf()).toMatchObject({ fromBeginning: true, consumer: { groupId: 'billing' } })
  expect(settingsOf({ groupId: 'mine' }).consumer.groupId).toBe('mine')
  expect(settingsOf({ consumer: { groupId: 'inner' } }).consumer.groupId).toBe('inner')
  expect(problemsOf({ groupId: 'mine', consumer: { groupId: 'inner' } })).toBe(
    "Expected one group id, got `groupId` 'mine' and `consumer.groupId` 'inner'.",
  )
  expect(problemsOf({ groupId: 'mine', consumer: { groupId: 'mine' } })).toBe('')
})

// Red when the running handlers get as long as a rebalance may last: the member rejoins too late, and is expelled.
test.each([
  [undefined, 5_000],
  [60_000, 5_000],
  [9_000, 3_000],
  [1_000, 333],
])(
  'with a rebalanceTimeout of %s, running handlers are waited for %i ms',
  (rebalanceTimeout, graceMs) => {
    const consumer = rebalanceTimeout === undefined ? {} : { rebalanceTimeout }
    expect(settingsOf({ consumer }).graceMs).toBe(graceMs)
  },
)

test('K19, K20: heartbeats are sent in time, and retries last longer than a restart of the broker', () => {
  expect(settingsOf().consumer).toMatchObject({
    sessionTimeout: 10_000,
    heartbeatInterval: 1_666,
    maxWaitTimeInMs: 100,
    allowAutoTopicCreation: false,
    retry: { initialRetryTime: 100, maxRetryTime: 2_000, retries: 6 },
  })
  expect(settingsOf({ consumer: { sessionTimeout: 1_000 } }).consumer).toMatchObject({
    heartbeatInterval: 166,
  })
  expect(settingsOf({ consumer: { retry: { retries: 50 } } }).consumer.retry).toMatchObject({
    maxRetryTime: 2_000,
    retries: 50,
  })
})

// Red when kafkajs decides: a consumer that was stopped in an outage comes back after it.
test("K21: kafkajs restarts nothing, and onceward asks the user's restartOnFailure", async () => {
  const restartOnFailure = async () => false
  const settings = settingsOf({ consumer: { retry: { restartOnFailure } } })
  expect(await settings.consumer.retry?.restartOnFailure?.(new Error('crash'))).toBe(false)
  expect(settings.mayRestart).toBe(restartOnFailure)
})

test.each<[string, object, RegExp]>([
  ['no topic', { topics: [] }, /Expected `topics` to be a list of at least one topic/],
  ['an empty topic name', { topics: ['a', ''] }, /by name or by RegExp, got \[a, \]/],
  ['a topic instead of a list', { topics: 'orders' }, /got `orders` \(string\)/],
  ['an empty group', { groupId: '' }, /Expected `groupId` to be a string/],
  [
    'an empty group of the consumer beside another one',
    { groupId: 'mine', consumer: { groupId: '' } },
    /^Expected `consumer.groupId` to be a string that is not empty, got .*$/,
  ],
  ['no partition', { partitionsConsumedConcurrently: 0 }, /from 1 to 1000, got `0`.*partitions/],
  ['a batch size of zero', { batch: { size: 0 } }, /`batch.size`/],
  ['a negative drain time', { drainMs: -1 }, /`drainMs`/],
  ['a session of less than a second', { consumer: { sessionTimeout: 900 } }, /sessionTimeout/],
  [
    'slow heartbeats',
    { consumer: { heartbeatInterval: 10_000 } },
    /`consumer.heartbeatInterval`.*expel/,
  ],
  [
    'K19: slow fetches',
    { consumer: { maxWaitTimeInMs: 10_000 } },
    /`consumer.maxWaitTimeInMs`.*10000/,
  ],
  [
    'a dead-letter topic that is consumed',
    { deadLetter: { producer, topic: 'orders' } },
    /another topic/,
  ],
  [
    'a dead-letter topic that a pattern matches',
    { topics: [/^ord/g], deadLetter: { producer, topic: 'orders.dead' } },
    /another topic/,
  ],
  [
    'a dead-letter topic among those that are consumed',
    { topics: ['orders', 'dead'], deadLetter: { producer, topic: 'dead' } },
    /another topic than those consumed, got `dead`/,
  ],
  [
    'a topic instead of a place for dead letters',
    { deadLetter: 'dead' },
    /^Expected `deadLetter` to be `{ producer, topic }`, got `dead` \(string\)\.$/,
  ],
  [
    'null as a place for dead letters',
    { deadLetter: null },
    /^Expected `deadLetter` to be `{ producer, topic }`, got `null`/,
  ],
  ['no dead-letter topic', { deadLetter: { producer } }, /`deadLetter.topic`/],
  ['no producer', { deadLetter: { topic: 'dead' } }, /`deadLetter.producer`/],
  ['a controller instead of its signal', { signal: new AbortController() }, /`signal`.*\.signal/],
  ['a text for a switch', { fromBeginning: 'false' }, /`fromBeginning` to be true or false/],
  ['no consumer config', { consumer: null }, /`consumer` to be an object, got `null`/],
  ['null for a time', { consumer: { maxWaitTimeInMs: null } }, /`consumer.maxWaitTimeInMs`/],
])('%s is refused', (_what, options, problem) => {
  expect(problemsOf(options)).toMatch(problem)
})

// Red before: kafkajs' own default, with which a consumer creates a deleted topic again, empty (brokers.md K23).
test('an undefined setting of the consumer is one that is left out', () => {
  const consumer = {
    ...{ allowAutoTopicCreation: undefined, heartbeatInterval: undefined },
    ...{ maxWaitTimeInMs: undefined, retry: { retries: undefined } },
  } as unknown as Exclude<ConsumeKafkaOptions['consumer'], undefined>
  expect(settingsOf({ consumer }).consumer).toMatchObject({
    ...{ allowAutoTopicCreation: false, heartbeatInterval: 1_666, maxWaitTimeInMs: 100 },
    retry: { retries: 6 },
  })
})

test('a guard without an inbox needs a place for dead letters', () => {
  expect(problemsOf({}, { hasInbox: false })).toMatch(/Expected `deadLetter`/)
  expect(problemsOf({ deadLetter: { producer, topic: 'dead' } }, { hasInbox: false })).toBe('')
})

test('the options of a wrap are checked', () => {
  const { port } = handMadeGuard()
  expect(resolveSettings({}, port.settings)).toMatchObject({
    batchSize: 100,
    partitionsConsumedConcurrently: 32,
  })
  expect(() => resolveSettings({ batch: { size: 101 } }, port.settings)).toThrow(ConfigurationError)
})
