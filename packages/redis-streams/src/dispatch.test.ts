import type { Settlement } from '@onceward/core'
import type { GuardPort, GuardSettings } from '@onceward/core/adapter'
import { deadLetterOf, handMadeGuard, turn } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import { createAccept } from './delivery.ts'
import { createDispatcher } from './dispatch.ts'
import { entryOf, RecordingApi } from './fixtures/recording-api.ts'
import { type ConsumeStreamOptions, resolveSettings } from './options.ts'
import { createSettleContext } from './settle.ts'

type DeadLetterAnswer = Awaited<ReturnType<GuardPort['publishDeadLetter']>>

const ACK: Settlement = { kind: 'ack', by: 'processed' }
const DEAD: Settlement = { kind: 'dead-letter', reason: 'fatal' }

/** A dispatcher for which the test decides entries, settlements and time. */
function setUp(options: Partial<ConsumeStreamOptions> = {}, guard: Partial<GuardSettings> = {}) {
  const made = handMadeGuard({ concurrency: 4, ...guard })
  const { port, clock } = made
  const redis = new RecordingApi()
  const settings = resolveSettings(
    { stream: 'orders', orderingField: 'lane', ...options },
    port.settings,
  )
  const context = createSettleContext(port, redis.api, settings)
  const accept = createAccept(settings, context.owned)
  const [stop, abort] = [new AbortController(), new AbortController()]
  const nothing = (): void => undefined
  const dispatcher = createDispatcher({
    ...{ port, settings, context, check: async () => undefined },
    signals: { stop: stop.signal, abort: abort.signal, onEnd: nothing },
    source: { most: 10, fill: nothing, fillOne: nothing, failed: nothing },
  })
  const take = async (...entries: readonly ReturnType<typeof entryOf>[]): Promise<void> => {
    const received = accept(entries.map((entry) => ({ ...entry, deliveryCount: 1 })))
    await dispatcher.receive({ reserved: 0, fetch: async () => received })
  }
  const run = (): readonly number[] =>
    made.handed.map(({ delivery }) => JSON.parse(String(delivery.body)).n)
  const settle = async (n: number, settlement: Settlement): Promise<void> => {
    made.handed[run().lastIndexOf(n)]?.settle(settlement)
    await (settlement === ACK || settlement === DEAD ? clock.advance(5) : turn())
  }
  const later = (reason: 'failed', ms: number): Settlement => ({
    ...{ kind: 'defer', reason, until: (clock.nowMs + ms) as never },
  })
  const verbs = (): readonly unknown[] => redis.calls.filter(([verb]) => verb !== 'renew')
  return { ...made, redis, dispatcher, stop, context, take, run, settle, later, verbs }
}

test('entries that are settled within some milliseconds are acked by one call', async () => {
  const { take, verbs, dispatcher, handed, clock } = setUp()
  await take(entryOf(1), entryOf(2))
  handed[0]?.settle(ACK)
  await clock.advance(4)
  expect([verbs(), dispatcher.inFlight]).toEqual([[], 2])
  handed[1]?.settle(ACK)
  await clock.advance(1)
  expect([verbs(), dispatcher.inFlight]).toEqual([[['ack', ['1-0', '2-0']]], 0])
})

// Red when a renewal goes on after the settlement: it would take a parked entry back.
test('an entry is renewed as long as it is in hand, and not afterwards', async () => {
  const { take, settle, redis, clock } = setUp()
  await take(entryOf(1), entryOf(2))
  await clock.advance(11_000)
  await settle(1, ACK)
  await clock.advance(11_000)
  await settle(2, ACK)
  await clock.advance(60_000)
  expect(redis.calls.filter(([verb]) => verb === 'renew')).toEqual([
    ['renew', ['1-0', '2-0']],
    ['renew', ['2-0']],
  ])
})

test('an entry in hand that comes again is not started twice', async () => {
  const { take, run, dispatcher } = setUp()
  await take(entryOf(1))
  await take(entryOf(1))
  expect(run()).toEqual([1])
  expect(dispatcher.inFlight).toBe(1)
})

describe('a deferral', () => {
  test('within `holdMs` is held, and runs again as a redelivery with one more delivery', async () => {
    const { take, settle, later, clock, run, handed, verbs } = setUp()
    await take(entryOf(1))
    await settle(1, later('failed', 9_000))
    await clock.advance(8_999)
    expect(run()).toEqual([1])
    await clock.advance(1)
    expect(run()).toEqual([1, 1])
    expect(handed[1]?.delivery).toMatchObject({ redelivered: true, deliveryCount: 2 })
    expect(verbs()).toEqual([])
  })

  test('for longer is parked until its time, and leaves the process', async () => {
    const { take, settle, later, verbs, dispatcher, context } = setUp()
    await take(entryOf(1))
    await settle(1, later('failed', 10_001))
    expect(verbs()).toEqual([['park', '1-0', 10_001, 1]])
    expect([dispatcher.inFlight, context.owned.size]).toEqual([0, 0])
  })

  test('with `holdMs: 0` is always parked', async () => {
    const { take, settle, later, verbs } = setUp({ holdMs: 0 })
    await take(entryOf(1))
    await settle(1, later('failed', 5))
    expect(verbs()).toEqual([['park', '1-0', 5, 1]])
  })
})

// Red when the entry stays: two consumers would run it one after the other, and the second as a copy.
test('an entry that another consumer owns now is neither started nor run again here', async () => {
  const { take, settle, later, redis, clock, run, dispatcher, logged } = setUp(
    {},
    { concurrency: 1 },
  )
  await take(entryOf(1), entryOf(2))
  await settle(1, later('failed', 9_000))
  await take(entryOf(3))
  for (const id of ['1-0', '3-0']) redis.lost.add(id)
  await clock.advance(11_000)
  expect(run()).toEqual([1, 2])
  expect(dispatcher.inFlight).toBe(1)
  expect(logged.filter(({ text }) => text.includes('another consumer owns it'))).toHaveLength(2)
})

describe('a dead letter', () => {
  const deadLetter = { stream: 'dead' }
  const answering = async (answer: DeadLetterAnswer) => {
    const made = setUp({ deadLetter })
    Object.assign(made.port, { publishDeadLetter: async () => answer })
    await made.take(entryOf(1))
    return made
  }
  /** The letter is added, and then the answer is given. */
  const adding = async (hasInbox: boolean, answer: DeadLetterAnswer) => {
    const made = setUp({ deadLetter }, { hasInbox })
    Object.assign(made.port, {
      publishDeadLetter: async (_: Settlement, publish: (letter: object) => Promise<void>) => {
        await publish(deadLetterOf(made.handed[0]!.delivery))
        return answer
      },
    })
    await made.take(entryOf(1))
    return made
  }
  const unmarked: DeadLetterAnswer = {
    kind: 'retry',
    cause: 'store-error',
    error: new Error('the mark was not stored'),
  }

  test('without an inbox is over when it was added, because its entry was acked in the same step', async () => {
    const { settle, verbs, dispatcher } = await adding(false, unmarked)
    await settle(1, DEAD)
    expect(verbs()).toEqual([['add', 'dead', '1-0']])
    expect(dispatcher.inFlight).toBe(0)
  })

  // Red when its entry is acked in the step that adds it: nobody would record it as published after a crash.
  test('with an inbox leaves its entry pending until it is recorded as published', async () => {
    const recorded = await adding(true, { kind: 'published' })
    await recorded.settle(1, DEAD)
    expect(recorded.verbs()).toEqual([
      ['add', 'dead', undefined],
      ['ack', ['1-0']],
    ])
    const failed = await adding(true, unmarked)
    await failed.settle(1, DEAD)
    expect(failed.verbs()).toEqual([['add', 'dead', undefined]])
    expect(failed.dispatcher.inFlight).toBe(1)
  })

  test('that another process has added is acked', async () => {
    const { settle, verbs } = await answering({ kind: 'already' })
    await settle(1, DEAD)
    expect(verbs()).toEqual([['ack', ['1-0']]])
  })

  test('that could not be added is tried again later, and said so', async () => {
    const error = new Error('READONLY no')
    const { settle, verbs, clock, run, logged } = await answering({
      kind: 'retry',
      cause: 'store-error',
      error,
    })
    await settle(1, DEAD)
    await clock.advance(10_000)
    expect(run()).toEqual([1, 1])
    expect(verbs()).toEqual([])
    expect(logged).toContainEqual(
      expect.objectContaining({
        level: 'error',
        fields: { queue: 'orders', id: '1-0', reason: 'READONLY no' },
      }),
    )
  })
})

test('without a dead-letter stream the record is enough, and the entry is acked', async () => {
  const { take, settle, verbs } = setUp()
  await take(entryOf(1))
  await settle(1, DEAD)
  expect(verbs()).toEqual([['ack', ['1-0']]])
})

test('a settlement that Redis refuses is counted, told, and leaves the entry to the next claim', async () => {
  const { take, settle, redis, context, clock, logged } = setUp()
  await take(entryOf(1))
  redis.error = new Error('Connection is closed.')
  await settle(1, ACK)
  expect(context.report.settleFailures).toBe(1)
  expect(logged.at(-1)?.fields).toMatchObject({ verb: 'ack', reason: 'Connection is closed.' })
  redis.calls.length = 0
  await clock.advance(60_000)
  expect(redis.calls).toEqual([])
})

test('a drain gives back what was not started and what is held, at once, and holds nothing more', async () => {
  const { take, settle, later, stop, dispatcher, verbs } = setUp({}, { concurrency: 2 })
  await take(entryOf(1), entryOf(2), entryOf(3))
  await settle(1, later('failed', 5_000))
  await take(entryOf(4))
  stop.abort()
  dispatcher.clear()
  await settle(2, later('failed', 5_000))
  await settle(3, { kind: 'abandon', reason: 'closing' })
  await dispatcher.ended()
  expect(verbs()).toEqual([
    ['giveBack', ['4-0']],
    ['giveBack', ['1-0']],
    ['park', '2-0', 5_000, 1],
    ['giveBack', ['3-0']],
  ])
})

test('one lane runs one entry at a time, and other lanes do not wait for it', async () => {
  const { take, run, settle } = setUp()
  await take(entryOf(1, 'a'))
  await take(entryOf(2, 'a'), entryOf(3, 'b'))
  expect(run()).toEqual([1, 3])
  await settle(1, ACK)
  expect(run()).toEqual([1, 3, 2])
})
