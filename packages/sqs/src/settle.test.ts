import type { Settlement } from '@onceward/core'
import type { DeadLetterPlace } from '@onceward/core/adapter'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import type { Entry, EntryAnswer } from './clients/batch-requests.ts'
import { toDelivery } from './delivery.ts'
import { message } from './fixtures/recording-client.ts'
import { resolveSettings } from './options.ts'
import { createSettleContext, type SettleContext, settle } from './settle.ts'
import type { Received } from './visibility.ts'

const queueUrl = 'http://127.0.0.1/000000000000/orders'
/** When the visibility timeout of the message ends. */
const EXPIRES_AT_MS = 1_033_000
const NOW_MS = 1_000_000

function setUp(place: DeadLetterPlace['kind'] = 'record') {
  const made = handMadeGuard()
  const asked: (readonly [verb: string, seconds: number])[] = []
  const state = { answer: { kind: 'settled' } as EntryAnswer }
  const grouping = (verb: string) => ({
    add: async ({ seconds }: Entry) => {
      asked.push([verb, seconds])
      return state.answer
    },
  })
  const context: SettleContext = {
    ...createSettleContext(
      made.port,
      {} as never,
      resolveSettings({ queueUrl }, made.port.settings),
    ),
    mayHold: () => true,
    ticker: { release: async () => EXPIRES_AT_MS, hold: () => undefined, stop: () => undefined },
    deletes: grouping('delete'),
    changes: grouping('change'),
    returns: grouping('return'),
    place: place === 'publish' ? { kind: place, publish: async () => undefined } : { kind: place },
  }
  return { ...made, asked, state, context }
}

function received(group?: string): Received {
  const original = message('a', group === undefined ? {} : { MessageGroupId: group })
  return {
    message: original,
    handle: 'h-a',
    delivery: toDelivery(original, group === undefined ? queueUrl : `${queueUrl}.fifo`),
    receivedAtMs: NOW_MS,
    hiddenUntilMs: EXPIRES_AT_MS,
    rounds: 0,
    sequence: 1,
  }
}

const ack: Settlement = { kind: 'ack', by: 'processed' }
const dead: Settlement = { kind: 'dead-letter', reason: 'fatal' }
const down: Settlement = { kind: 'defer', reason: 'store-down', until: NOW_MS as never }

test.each<[Settlement, string, number]>([
  [ack, 'delete', 0],
  [{ kind: 'defer', reason: 'failed', until: (NOW_MS + 9_000) as never }, 'change', 10],
  [{ kind: 'abandon', reason: 'closing' }, 'return', 0],
  [dead, 'delete', 0],
])(
  'a settlement %o that SQS refuses is reported, and the message keeps its visibility timeout',
  async (settlement, verb, seconds) => {
    const kit = setUp()
    kit.state.answer = { kind: 'refused', code: 'InternalError' }
    const refused = received()
    expect(await settle(kit.context, refused, settlement)).toBeUndefined()
    expect(refused.hiddenUntilMs).toBe(EXPIRES_AT_MS)
    expect(kit.asked).toEqual([[verb, seconds]])
    expect(kit.context.report.settleFailures).toBe(1)
    expect(kit.logged).toMatchObject([
      { level: 'warn', fields: { queue: queueUrl, messageId: 'm-a', reason: 'InternalError' } },
    ])
  },
)

// The guard tells a time of day, which may be set back or forward; SQS is told seconds.
test('a message is hidden from the time of day on, and its end is on the monotonic clock', async () => {
  const kit = setUp()
  const apartMs = 3_600_000
  const runtime = { ...kit.clock.runtime, now: () => (NOW_MS + apartMs) as never }
  const until = (NOW_MS + apartMs + 9_000) as never
  const later = { kind: 'defer', reason: 'failed', until } as const
  const hidden = received()
  await settle({ ...kit.context, runtime }, hidden, later)
  expect(hidden.hiddenUntilMs).toBe(NOW_MS + 10_000)
  expect(kit.asked).toEqual([['change', 10]])
})

// Red when it is renewed for ever: it comes again only when this process has ended.
test('an abandoned message is not renewed any more', async () => {
  const kit = setUp()
  const released: Received[] = []
  const release = async (each: Received) => {
    released.push(each)
    return hiddenUntilMs
  }
  const ticker = { ...kit.context.ticker, release }
  const hiddenUntilMs = NOW_MS + 20_000
  const abandoned = { ...received(), hiddenUntilMs }
  const lost: Settlement = { kind: 'abandon', reason: 'lease-lost' }
  await settle({ ...kit.context, ticker }, abandoned, lost)
  expect(released).toEqual([abandoned])
})

// SQS refuses the second, because its 12 hours are over. It would take 0, and the message would come again at once.
test.each([
  ['is due', NOW_MS],
  ['was received more than twelve hours ago', NOW_MS - 43_200_000],
])('a message that %s is hidden for a second', async (_, receivedAtMs) => {
  const kit = setUp()
  const due: Settlement = { kind: 'defer', reason: 'failed', until: NOW_MS as never }
  await settle(kit.context, { ...received(), receivedAtMs }, due)
  expect(kit.asked).toEqual([['change', 1]])
})

// Red when the messages of a group get separate jitter: later ones would overtake the first one.
test('during a store outage a message is hidden for up to two minutes, and a message of a group for half a minute', async () => {
  const kit = setUp()
  // It waits here until two seconds before it becomes visible.
  expect(await settle(kit.context, received(), down)).toBe(NOW_MS + 73_000)
  expect(await settle(kit.context, received('g'), down)).toBe(NOW_MS + 28_000)
  const draining = { ...kit.context, mayHold: () => false }
  expect(await settle(draining, received('g'), down)).toBeUndefined()
  expect(kit.asked).toEqual([
    ['change', 75],
    ['change', 30],
    ['change', 30],
  ])
})

test('a dead letter that cannot be published keeps its message, and only errors are reported', async () => {
  const kit = setUp('publish')
  const answering = (error?: Error): SettleContext => ({
    ...kit.context,
    port: {
      publishDeadLetter: async () => ({ kind: 'retry', cause: 'dead-letter-place-down', error }),
    },
  })
  await settle(answering(), received(), dead)
  expect(kit.logged).toEqual([])
  const error = new Error('no such queue')
  await settle(answering(error), received(), dead)
  expect(kit.asked).toEqual([
    ['change', 18],
    ['change', 18],
  ])
  expect(kit.logged).toMatchObject([
    {
      level: 'error',
      fields: { queue: queueUrl, messageId: 'm-a', reason: 'Error: no such queue' },
    },
  ])
})

// Red when the rejection reaches the loop: the loop would end, with other messages in hand.
test('a settlement that throws is reported, and the message keeps its visibility timeout', async () => {
  const kit = setUp('publish')
  const rejecting = { publishDeadLetter: () => Promise.reject(new Error('no connection')) }
  const hidden = received()
  await settle({ ...kit.context, port: rejecting }, hidden, dead)
  expect(hidden.hiddenUntilMs).toBe(EXPIRES_AT_MS)
  expect(kit.asked).toEqual([])
  expect(kit.context.report.settleFailures).toBe(1)
  expect(kit.logged).toMatchObject([
    {
      level: 'warn',
      fields: {
        messageId: 'm-a',
        verb: 'dead-letter',
        reason: expect.stringMatching(/no connection/),
      },
    },
  ])
})

// A group of a FIFO queue gets no other message before.
test.each([
  ['', 20],
  ['.fifo', 5],
])('a delete from a queue%s waits %i ms for others', async (suffix, windowMs) => {
  const { port, clock } = handMadeGuard()
  const removed: (readonly string[])[] = []
  const api = {
    remove: async (handles: readonly string[]) => {
      removed.push(handles)
      return []
    },
  }
  const settings = resolveSettings({ queueUrl: `${queueUrl}${suffix}` }, port.settings)
  const done = settle(
    { ...createSettleContext(port, api as never, settings), mayHold: () => false },
    received(),
    ack,
  )
  await clock.advance(windowMs - 1)
  expect(removed).toEqual([])
  await clock.advance(1)
  expect(removed).toEqual([['h-a']])
  await done
})
