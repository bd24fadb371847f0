import { expect, test } from 'vitest'
import { createBreaker } from '../concurrency/breaker.ts'
import { ANY_LANE } from '../concurrency/lanes.ts'
import { isPromise } from '../concurrency/maybe-async.ts'
import { Clock } from '../fixtures/clock.ts'
import { silent } from '../fixtures/inbox.ts'
import { storeDown } from '../fixtures/run.ts'
import { resolveOptions } from '../guard/resolve-options.ts'
import { eventIdOf } from '../identity/event-id.ts'
import { memoryInbox, toDelivery } from '../memory/index.ts'
import type { Delivery } from '../model/delivery.ts'
import {
  InvalidPayloadError,
  MissingKeyError,
  RetryableError,
  StoreUnavailableError,
} from '../model/errors.ts'
import type { InboxSession, MessageCounts, Refusal } from '../model/inbox.ts'
import type { InboxGuardOptions } from '../options/options.ts'
import type { Processing } from '../run/processing.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { LocalMessageCounts } from '../support/message-counts.ts'
import { receive } from './receive.ts'

type Given = Partial<InboxGuardOptions<unknown, undefined>>

/** Step 1 with a session that records refused messages, unless the session is down. */
function setUp(given: Given = {}, down?: Error | MessageCounts | 'no session') {
  const runtime = { ...new Clock().runtime, random: () => 0.5, uuid: () => 'a-uuid' }
  const common = { consumer: 'billing', inbox: memoryInbox(), runtime }
  const options = resolveOptions({ ...common, ...given })
  const refused: Refusal[] = []
  const session = {
    refuse: async (refusals: readonly Refusal[]) => {
      if (down instanceof Error) throw down
      refused.push(...refusals)
      return refusals.map((_, index) => ({ kind: 'refused', id: `r-${index}` }))
    },
    messageCounts: typeof down === 'object' && 'start' in down ? down : undefined,
  } as unknown as InboxSession<unknown>
  const engine = down === 'no session' ? undefined : { session }
  const stores = {
    engine,
    localCounts: new LocalMessageCounts(),
  } as unknown as Processing['stores']
  const context = { options, stores, breaker: createBreaker(runtime) }
  const take = (deliveries: readonly Delivery[]) => receive(context, deliveries)
  return { take, refused, breaker: context.breaker }
}

const named = (key: string, over: Partial<Delivery> = {}): Delivery =>
  toDelivery(key, { headers: { 'idempotency-key': key }, ...over })
const keyless = (payload = 'keyless', over: Partial<Delivery> = {}): Delivery =>
  toDelivery(payload, { headers: {}, ...over })

test('deliveries of one payload are one event in the order of the first; each keeps its own', async () => {
  const { take } = setUp({ fingerprint: (payload) => typeof payload })
  const headers = named('a').headers
  const again = ['A', 2, 3].map((payload) => toDelivery(payload, { headers }))
  const deliveries = [named('a'), named('b'), ...again]
  const { events, decided } = await take(deliveries)
  const seen = events.map(({ copies, isOtherPayload, member }) => [
    ...[member.index, member.event.key, isOtherPayload],
    copies.map((copy) => [copy.index, copy.payload]),
  ])
  expect(seen).toEqual([
    [0, 'a', false, [[2, 'A']]],
    [1, 'b', false, []],
    [3, 'a', true, [[4, 3]]],
  ])
  expect(decided).toEqual([])
  expect(events[0]?.member).toMatchObject({
    event: { id: eventIdOf('billing', undefined, 'a') },
    payload: 'a',
    lane: undefined,
  })
})

// A synchronous guard must not pay one microtask per step and delivery.
test('copies find their group among those of several other payloads', async () => {
  const { take } = setUp()
  const { headers } = named('a')
  const deliveries = [1, 2, 3, 2, 3].map((payload) => toDelivery(payload, { headers }))
  const { events } = await take(deliveries)
  const indexes = events.map(({ copies, member }) => [
    member.index,
    copies.map((copy) => copy.index),
  ])
  expect(indexes).toEqual([
    [0, []],
    [1, [3]],
    [2, [4]],
  ])
})

test('a refused message that is recorded shows that the store answers', async () => {
  const { breaker, take } = setUp()
  breaker.failed(new StoreUnavailableError('down'))
  await take([keyless()])
  expect(breaker.state()).toBeUndefined()
})

test('a refused message that cannot be recorded holds its lane', async () => {
  const { take } = setUp({}, new StoreUnavailableError('down'))
  const { decided } = await take([keyless('bad', { orderingKey: 'lane' })])
  expect(decided).toMatchObject([{ outcome: { kind: 'store-down' }, lane: 'lane' }])
})

test('synchronous user functions are not awaited', () => {
  const { take } = setUp({ skip: ({ payload }) => payload === 'b' })
  expect(isPromise(take([named('a'), named('b')]))).toBe(false)
  expect(isPromise(take([keyless()]))).toBe(true)
})

test('asynchronous user functions are awaited in order, also next to synchronous ones', async () => {
  const eventKey = ({ payload }: { readonly payload: unknown }): string =>
    (payload === 'b' ? 'b' : Promise.resolve(payload)) as string
  const { events } = await setUp({ eventKey }).take([keyless('a'), keyless('b'), keyless('c')])
  expect(events.map(({ member }) => member.event.key)).toEqual(['a', 'b', 'c'])
})

test.each([
  [{}, false],
  [{ redelivered: true }, true],
  [{ redelivered: false }, false],
  [{ deliveryCount: 1 }, false],
  [{ deliveryCount: 2 }, true],
  [{ redelivered: false, deliveryCount: 2 }, true],
])('a delivery with %o is suspect: %s', async (over, suspect) => {
  const { events } = await setUp().take([named('a', { ...over, orderingKey: 'lane' })])
  expect(events).toMatchObject([{ member: { suspect, lane: 'lane' } }])
})

test('without a key, by policy, each delivery is an event of its own without stored state', async () => {
  const { take } = setUp({ onMissingKey: 'unguarded' })
  const delivery = keyless('keyless', { redelivered: true, orderingKey: 'lane' })
  const { events, decided } = await take([named('a'), delivery])
  const event = { id: 'a-uuid', key: '', fingerprint: 0n, delivery }
  const member = { index: 1, event, payload: 'keyless', lane: 'lane', suspect: false }
  expect(events[1]).toEqual({ member, copies: [], hasKey: false })
  expect([events.length, decided]).toEqual([2, []])
})

test('a message that is skipped or must be retried gets its outcome here, and nothing is stored', async () => {
  const error = new RetryableError('the registry is down')
  const { take, refused } = setUp({
    skip: ({ payload }) => {
      if (payload === 'late') throw error
      return payload === 'skip'
    },
  })
  const late = (over: Partial<Delivery>) => named('late', { messageId: 'm-1', ...over })
  const { decided, events } = await take([
    toDelivery('skip'),
    late({}),
    late({ messageId: 'm-2', deliveryCount: 3 }),
  ])
  const failed = (attempt: number, delayMs: number): Outcome => ({
    ...{ kind: 'failed', attempt, delayMs, error, cause: 'identify-failed' },
  })
  expect(decided.map(({ index, outcome, key }) => [index, outcome, key])).toEqual([
    [0, { kind: 'skipped' }, undefined],
    [1, failed(1, 750), undefined],
    [2, failed(1, 750), undefined],
  ])
  const again = await take([late({ redelivered: true }), late({ messageId: 'other' })])
  expect(again.decided.map(({ outcome }) => outcome)).toEqual([failed(2, 1_500), failed(1, 750)])
  expect([events, refused]).toEqual([[], []])
})

// Red when the wait that the user chose is taken as it is: a consumer that keeps the message in memory would read it again
// at once.
test('a message that must be retried waits a moment also without a back-off', async () => {
  const { take } = setUp({
    retry: { baseMs: 0 },
    skip: ({ payload }) => {
      throw payload === 'soon' ? new RetryableError('no', { afterMs: 0 }) : new RetryableError('no')
    },
  })
  const { decided } = await take([toDelivery('soon'), toDelivery('late')])
  expect(decided).toMatchObject([{ outcome: { delayMs: 100 } }, { outcome: { delayMs: 100 } }])
})

test('each refused message has its own record before its outcome', async () => {
  const { take, refused } = setUp({ tenant: ({ payload }) => String(payload) })
  const [bad, fine, unnamed] = [named('', { body: Buffer.from('{') }), named('a'), keyless()]
  const { decided, events } = await take([bad, fine, unnamed])
  const invalid = expect.any(InvalidPayloadError)
  const missing = expect.any(MissingKeyError)
  expect(refused).toEqual([
    { delivery: bad, reason: 'invalid-payload', error: invalid, key: undefined },
    { delivery: unnamed, reason: 'missing-event-key', error: missing, key: undefined },
  ])
  const dead = (reason: string, error: unknown, id: string) => ({
    ...{ kind: 'dead', reason, attempt: 0, error, ref: { kind: 'refused', id } },
  })
  expect(decided.map(({ index, outcome }) => [index, outcome])).toEqual([
    [0, dead('invalid-payload', invalid, 'r-0')],
    [2, dead('missing-event-key', missing, 'r-1')],
  ])
  expect(events).toHaveLength(1)
})

test('a refused message is reported with the key that was found', async () => {
  const { take, refused } = setUp({ tenant: () => undefined })
  const { decided } = await take([named('a')])
  expect(refused).toMatchObject([{ key: 'a' }])
  expect(decided).toMatchObject([{ key: 'a', outcome: { kind: 'dead' } }])
})

test('without a session a refused message is a dead letter without a record', async () => {
  const { take, refused } = setUp({}, 'no session')
  const { decided } = await take([keyless()])
  expect(decided).toMatchObject([{ outcome: { kind: 'dead', reason: 'missing-event-key' } }])
  expect(decided[0]?.outcome).toHaveProperty('ref', undefined)
  expect(refused).toEqual([])
})

test('a refused message that cannot be recorded is deferred, not dead-lettered', async () => {
  const down = new Error('down')
  const { take } = setUp({ tenant: () => undefined }, down)
  const { decided } = await take([named('a'), keyless()])
  expect(decided.map(({ index, outcome, key }) => [index, outcome, key])).toEqual([
    [0, storeDown(down), 'a'],
    [1, storeDown(down), undefined],
  ])
})

// Red when the lane is forgotten: the later event of the lane would overtake the message.
test('a message that cannot be counted before it is read holds its lane', async () => {
  const start = (): Promise<never> => Promise.reject(new StoreUnavailableError('down'))
  const { take } = setUp({ decode: () => 'read' }, { start } as never)
  const { decided, events } = await take([
    named('a', { redelivered: true, orderingKey: 'lane' }),
    named('b', { orderingKey: 'lane' }),
  ])
  expect(decided).toMatchObject([{ index: 0, lane: 'lane', outcome: { kind: 'store-down' } }])
  expect(events).toMatchObject([{ member: { index: 1 } }])
})

// Red when it holds none: later events of its lane overtake it.
test('a message that cannot be read may be of any lane of the user', async () => {
  const error = new RetryableError('the registry is down')
  const decode = (): never => {
    throw error
  }
  const { take } = setUp({ decode, orderingKey: () => 'own' })
  const { decided } = await take([named('a', { orderingKey: 'lane' })])
  expect(decided).toMatchObject([{ lane: ANY_LANE, outcome: { kind: 'failed' } }])
})

test('a function that answers nonsense is logged once, and one that asks for a retry is not', async () => {
  const lines: unknown[] = []
  const logger = { ...silent, error: (...line: unknown[]) => void lines.push(line) }
  const { take } = setUp({
    logger,
    skip: ({ payload }) => {
      if (payload === 'late') throw new RetryableError('the registry is down')
      return 'no' as never
    },
  })
  await take([toDelivery('late'), toDelivery('late')])
  expect(lines).toEqual([])
  await take([toDelivery(1), toDelivery(2)])
  const message =
    'skip answered a value of the wrong type and its messages are retried: fix the function'
  expect(lines).toEqual([
    [{ option: 'skip', err: expect.objectContaining({ name: 'ConfigurationError' }) }, message],
  ])
})
