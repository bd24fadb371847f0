import { expect, test } from 'vitest'
import { isPromise } from '../concurrency/maybe-async.ts'
import { Clock } from '../fixtures/clock.ts'
import { eventIdOf } from '../identity/event-id.ts'
import { memoryInbox, toDelivery } from '../memory/index.ts'
import type { Delivery } from '../model/delivery.ts'
import { InvalidPayloadError, MissingKeyError, RetryableError } from '../model/errors.ts'
import type { InboxSession, Refusal } from '../model/inbox.ts'
import type { InboxGuardOptions } from '../options/options.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { receive } from './receive.ts'
import { resolveOptions } from './resolve-options.ts'

type Given = Partial<InboxGuardOptions<unknown, undefined>>

/** Intake beside a session that records what is refused, unless it is down. */
function setUp(given: Given = {}, down?: Error | 'no session') {
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
  } as unknown as InboxSession<unknown>
  const fault = (error: unknown): Outcome => ({ kind: 'store-down', delayMs: 5, error })
  const context = { options, fault, session: down === 'no session' ? undefined : session }
  const take = (deliveries: readonly Delivery[]) =>
    receive(
      context,
      deliveries.map((delivery, index) => ({ index, delivery })),
    )
  return { take, refused, fault }
}

const named = (key: string, over: Partial<Delivery> = {}): Delivery =>
  toDelivery(key, { headers: { 'idempotency-key': key }, ...over })
const keyless = (payload = 'keyless', over: Partial<Delivery> = {}): Delivery =>
  toDelivery(payload, { headers: {}, ...over })

test('deliveries of one event are one group, in the order of their first; each keeps its own payload', async () => {
  const { take } = setUp()
  const deliveries = [named('a'), named('b'), toDelivery(2, { headers: named('a').headers })]
  const { groups, settled, unguarded } = await take(deliveries)
  const seen = groups.map(({ arrival, followers, member }) => [
    arrival.index,
    member.event.key,
    followers.map((follower) => [follower.arrival.index, follower.member.payload]),
  ])
  expect(seen).toEqual([
    [0, 'a', [[2, 2]]],
    [1, 'b', []],
  ])
  expect([settled, unguarded]).toEqual([[], []])
  expect(groups[0]?.member).toMatchObject({
    event: { id: eventIdOf('billing', undefined, 'a') },
    payload: 'a',
    lane: undefined,
  })
})

// A turn of the queue per step and delivery is what a synchronous guard does not pay.
test('what needs no waiting is not waited for', () => {
  const { take } = setUp({ skip: ({ payload }) => payload === 'b' })
  expect(isPromise(take([named('a'), named('b')]))).toBe(false)
  expect(isPromise(take([keyless()]))).toBe(true)
})

test('what is found later is waited for, in order, also beside what is found at once', async () => {
  const eventKey = ({ payload }: { readonly payload: unknown }): string =>
    (payload === 'b' ? 'b' : Promise.resolve(payload)) as string
  const { groups } = await setUp({ eventKey }).take([keyless('a'), keyless('b'), keyless('c')])
  expect(groups.map(({ member }) => member.event.key)).toEqual(['a', 'b', 'c'])
})

test.each([
  [{}, false],
  [{ redelivered: true }, true],
  [{ redelivered: false }, false],
  [{ deliveryCount: 1 }, false],
  [{ deliveryCount: 2 }, true],
  [{ redelivered: false, deliveryCount: 2 }, true],
])('a delivery with %o is a suspect: %s', async (over, suspect) => {
  const { groups } = await setUp().take([named('a', { ...over, orderingKey: 'lane' })])
  expect(groups).toMatchObject([{ member: { suspect, lane: 'lane' } }])
})

test('without a key, by policy, each is an event of its own that nothing is known of', async () => {
  const { take } = setUp({ onMissingKey: 'unguarded' })
  const delivery = keyless('keyless', { redelivered: true, orderingKey: 'lane' })
  const { groups, settled, unguarded } = await take([named('a'), delivery])
  const event = { id: 'a-uuid', key: '', fingerprint: 0n, delivery }
  expect(unguarded).toEqual([
    {
      arrival: { index: 1, delivery },
      member: { event, payload: 'keyless', lane: 'lane', suspect: false },
    },
  ])
  expect([groups.length, settled]).toEqual([1, []])
})

test('what is skipped or must be tried again is settled here, and nothing is stored of it', async () => {
  const error = new RetryableError('the registry is down')
  const { take, refused } = setUp({
    skip: ({ payload }) => {
      if (payload === 'late') throw error
      return payload === 'skip'
    },
  })
  const late = (over: Partial<Delivery>) => toDelivery('late', over)
  const { settled, groups } = await take([toDelivery('skip'), late({}), late({ deliveryCount: 3 })])
  const failed = (attempt: number, delayMs: number): Outcome => ({
    ...{ kind: 'failed', attempt, delayMs, error },
  })
  expect(settled.map(({ arrival, outcome, key }) => [arrival.index, outcome, key])).toEqual([
    [0, { kind: 'skipped' }, undefined],
    [1, failed(1, 500), undefined],
    [2, failed(3, 2_000), undefined],
  ])
  expect([groups, refused]).toEqual([[], []])
})

test('what is refused has its record before it is settled, each its own', async () => {
  const { take, refused } = setUp({ tenant: ({ payload }) => String(payload) })
  const [bad, fine, unnamed] = [named('', { body: Buffer.from('{') }), named('a'), keyless()]
  const { settled, groups } = await take([bad, fine, unnamed])
  const invalid = expect.any(InvalidPayloadError)
  const missing = expect.any(MissingKeyError)
  expect(refused).toEqual([
    { delivery: bad, reason: 'invalid-payload', error: invalid, key: undefined },
    { delivery: unnamed, reason: 'missing-event-key', error: missing, key: undefined },
  ])
  const dead = (reason: string, error: unknown, id: string) => ({
    ...{ kind: 'dead', reason, attempt: 0, error, ref: { kind: 'refused', id } },
  })
  expect(settled.map(({ arrival, outcome }) => [arrival.index, outcome])).toEqual([
    [0, dead('invalid-payload', invalid, 'r-0')],
    [2, dead('missing-event-key', missing, 'r-1')],
  ])
  expect(groups).toHaveLength(1)
})

test('what is refused names the key that was found', async () => {
  const { take, refused } = setUp({ tenant: () => undefined })
  const { settled } = await take([named('a')])
  expect(refused).toMatchObject([{ key: 'a' }])
  expect(settled).toMatchObject([{ key: 'a', outcome: { kind: 'dead' } }])
})

test('without a session what is refused is a dead letter without a record', async () => {
  const { take, refused } = setUp({}, 'no session')
  const { settled } = await take([keyless()])
  expect(settled).toMatchObject([{ outcome: { kind: 'dead', reason: 'missing-event-key' } }])
  expect(settled[0]?.outcome).toHaveProperty('ref', undefined)
  expect(refused).toEqual([])
})

test('what could not be recorded is not settled as dead, so it comes back', async () => {
  const down = new Error('down')
  const { take, fault } = setUp({ tenant: () => undefined }, down)
  const { settled } = await take([named('a'), keyless()])
  expect(settled.map(({ arrival, outcome, key }) => [arrival.index, outcome, key])).toEqual([
    [0, fault(down), 'a'],
    [1, fault(down), undefined],
  ])
})
