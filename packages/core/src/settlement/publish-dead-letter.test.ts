import { expect, test } from 'vitest'
import { newEvent, openInbox, silent } from '../fixtures/inbox.ts'
import { toDelivery } from '../memory/to-delivery.ts'
import type { EventId } from '../model/brands.ts'
import type { DeadLetter, DeadLetterRef, Publish } from '../model/dead-letter.ts'
import type { DueEvent } from '../model/inbox.ts'
import type { Settlement } from '../model/settlement.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Outcome } from './outcome.ts'
import { createDeadLetterPublisher } from './publish-dead-letter.ts'

const error = new Error('no such customer')
const delivery = toDelivery({ order: 1 })
const RIGHT_MS = 15_000
const BUDGET_MS = 10_000
const dead = (over: Partial<Extract<Outcome, { kind: 'dead' }>> = {}): Outcome => ({
  kind: 'dead',
  reason: 'fatal',
  attempt: 2,
  error,
  ...over,
})

/** A publisher of dead letters on an inbox in memory. */
async function setUp() {
  const { clock, session, inbox } = await openInbox()
  const logged: (readonly [string, object])[] = []
  const note = (level: string) => (fields: object) => void logged.push([level, fields])
  const logger = { ...silent, debug: note('debug'), error: note('error') }
  const options = { consumer: 'billing', logger, runtime: clock.runtime }
  const publishing = createDeadLetterPublisher(options as unknown as ResolvedOptions)
  const letters: DeadLetter[] = []
  const publish: Publish = async (letter) => void letters.push(letter)
  const settle = (
    outcome: Outcome,
    kind: Settlement['kind'] = 'dead-letter',
    eventId?: EventId,
  ): Settlement => {
    const settlement = { kind, reason: 'fatal' } as Settlement
    publishing.note(settlement, { delivery, key: 'k', outcome, eventId })
    return settlement
  }
  const buried = async (): Promise<DeadLetterRef> => {
    const event = newEvent()
    await session.bury([{ event, attempt: 1, error, reason: 'fatal' }])
    return { kind: 'event', id: event.id }
  }
  const recorded = async (): Promise<Settlement> => settle(dead({ ref: await buried() }))
  return { clock, session, inbox, logged, letters, publish, publishing, settle, buried, recorded }
}

const silence: Publish = () => new Promise<void>(() => undefined)
const DOWN = { kind: 'retry', cause: 'dead-letter-place-down' }

test('a recorded dead letter is published once, and nothing is held meanwhile', async () => {
  const { buried, inbox, letters, publishing, session, settle } = await setUp()
  const ref = await buried()
  const gate = Promise.withResolvers<void>()
  const slow: Publish = (letter) => gate.promise.then(() => void letters.push(letter))
  const first = publishing.publish(settle(dead({ ref })), slow, session)
  const second = publishing.publish(settle(dead({ ref })), slow, session)
  expect(await second).toEqual({ kind: 'retry', cause: 'publishing-elsewhere' })
  expect(inbox.replay(ref)).toBe(false)
  gate.resolve()
  expect(await first).toEqual({ kind: 'published' })
  expect(await publishing.publish(settle(dead({ ref })), slow, session)).toEqual({
    kind: 'already',
  })
  // The delivery in hand, not the stored one.
  expect(letters).toMatchObject([{ ref, consumer: 'billing', reason: 'fatal', delivery }])
  expect(inbox.replay(ref)).toBe(true)
  const gone = await publishing.publish(settle(dead({ ref })), slow, session)
  expect(gone).toEqual({ kind: 'retry', cause: 'running-elsewhere' })
})

test('without an inbox the dead letter is built from the delivery, with the id of the event', async () => {
  const { letters, publish, publishing, settle } = await setUp()
  const id = newEvent().id as EventId
  for (let copy = 0; copy < 2; copy += 1) {
    const settlement = settle(dead(), 'dead-letter', id)
    expect(await publishing.publish(settlement, publish, undefined)).toEqual({ kind: 'published' })
  }
  const now = new Date(1_000_000)
  const letter = {
    ref: { kind: 'event', id },
    ...{ consumer: 'billing', key: 'k', reason: 'fatal', attempts: 2, delivery },
    ...{ error: 'no such customer', firstFailedAt: now, lastFailedAt: now },
  }
  expect(letters).toEqual([letter, letter])
})

test.each([
  ['without an event', dead({ error: undefined }), undefined],
  // Another message than the event whose key it bears.
  ['of a conflict', dead({ reason: 'fingerprint-mismatch' }), newEvent().id],
])('a dead letter %s and without a record has the id of its message', async (_, outcome, id) => {
  const { letters, publish, publishing, session, settle } = await setUp()
  for (const inbox of [session, undefined]) {
    await publishing.publish(settle(outcome, 'dead-letter', id), publish, inbox)
  }
  expect(letters[0]?.ref).toEqual({ kind: 'refused', id: expect.stringMatching(/^[0-9a-f]{64}$/) })
  expect(letters[1]?.ref).toEqual(letters[0]?.ref)
})

test('other settlements, and settlements of other guards, publish nothing', async () => {
  const { buried, letters, publish, publishing, session, settle } = await setUp()
  const ref = await buried()
  const strangers = [
    settle(dead({ ref }), 'ack'),
    settle({ kind: 'processed', attempt: 1 }),
    { kind: 'dead-letter', reason: 'fatal' } as const,
  ]
  for (const settlement of strangers) {
    expect(await publishing.publish(settlement, publish, session)).toEqual({ kind: 'already' })
  }
  expect(letters).toEqual([])
})

/** A client may do anything. */
const ODD: readonly (readonly [string, Publish])[] = [
  ['rejects', () => Promise.reject(new Error('the broker is down'))],
  [
    'throws at once',
    () => {
      throw new Error('the broker is down')
    },
  ],
  ['rejects with undefined', () => Promise.reject(undefined)],
  ['rejects with a symbol', () => Promise.reject(Symbol('odd'))],
  ['rejects with an object without a prototype', () => Promise.reject(Object.create(null))],
]

test.each(ODD)('a publisher that %s: the dead letter is retried', async (_, odd) => {
  const { clock, logged, letters, publish, publishing, recorded, session, settle } = await setUp()
  const settlement = await recorded()
  const retried = { ...DOWN, error: expect.any(Error) }
  expect(await clock.until(publishing.publish(settlement, odd, session))).toEqual(retried)
  expect(await clock.until(publishing.publish(settle(dead()), odd, undefined))).toMatchObject(DOWN)
  expect(logged[0]).toMatchObject([
    'error',
    { consumer: 'billing', cause: 'dead-letter-place-down', err: expect.anything() },
  ])
  // The right was given back, so another process, or another place, publishes it.
  clock.advance(RIGHT_MS)
  expect(await publishing.publish(settlement, publish, session)).toEqual({ kind: 'published' })
  expect(letters).toHaveLength(1)
})

test('a store that fails is no trouble of the place', async () => {
  const { letters, publish, publishing, recorded, session } = await setUp()
  const down = new Error('the store is down')
  const settlement = await recorded()
  const failing = { ...session, takePublishing: () => Promise.reject(down) }
  const answer = await publishing.publish(settlement, publish, failing as typeof session)
  expect(answer).toEqual({ kind: 'retry', cause: 'store-error', error: down })
  expect(await publishing.publish(settlement, publish, session)).toEqual({ kind: 'published' })
  expect(letters).toHaveLength(1)
})

test('a place that hangs has eight calls at most, and the others are deferred without waiting for it', async () => {
  const { clock, publishing, recorded, session, publish } = await setUp()
  let calls = 0
  const hanging: Publish = () => {
    calls += 1
    return silence({} as DeadLetter)
  }
  const settlements = await Promise.all(Array.from({ length: 50 }, recorded))
  const answers = settlements.map((one) => publishing.publish(one, hanging, session))
  const startedAtMs = clock.runtime.monotonic()
  await clock.until(Promise.all(answers.slice(8)))
  expect(clock.runtime.monotonic() - startedAtMs).toBeLessThanOrEqual(1_100)
  expect(calls).toBe(8)
  // Another place is not concerned.
  expect(await publishing.publish(await recorded(), publish, session)).toEqual({
    kind: 'published',
  })
  expect(new Set((await clock.until(Promise.all(answers))).map(({ kind }) => kind))).toEqual(
    new Set(['retry']),
  )
  // Now the breaker is open: nobody calls, until one probe.
  for (const one of settlements.slice(8, 20)) {
    expect(await publishing.publish(one, hanging, session)).toMatchObject(DOWN)
  }
  expect(calls).toBe(8)
  clock.advance(2_000)
  const probes = settlements.slice(8, 20).map((one) => publishing.publish(one, hanging, session))
  await clock.until(Promise.all(probes))
  expect(calls).toBe(9)
})

test('a slow place that answers is waited for', async () => {
  const { clock, letters, publishing, recorded, session } = await setUp()
  const slow: Publish = (letter) =>
    new Promise((resolve) => {
      clock.runtime.setTimer(() => resolve(void letters.push(letter)), 900)
    })
  const settlements = await Promise.all(Array.from({ length: 40 }, recorded))
  const all = Promise.all(settlements.map((one) => publishing.publish(one, slow, session)))
  expect(new Set((await clock.until(all)).map(({ kind }) => kind))).toEqual(new Set(['published']))
  expect(letters).toHaveLength(40)
})

test('a late confirmation marks the dead letter, unless a successor has the right', async () => {
  const { clock, publishing, buried, session, settle } = await setUp()
  const [alone, taken] = [await buried(), await buried()]
  const gate = Promise.withResolvers<void>()
  const late = [alone, taken].map((ref) =>
    publishing.publish(settle(dead({ ref })), () => gate.promise, session),
  )
  for (const answer of late) expect(await clock.until(answer)).toMatchObject(DOWN)
  expect(await session.takePublishing(alone, RIGHT_MS)).toEqual({ kind: 'held' })
  clock.advance(RIGHT_MS - BUDGET_MS)
  const successor = await session.takePublishing(taken, RIGHT_MS)
  gate.resolve()
  await new Promise((resolve) => setImmediate(resolve))
  expect(await session.takePublishing(alone, RIGHT_MS)).toEqual({ kind: 'already' })
  expect(await session.takePublishing(taken, RIGHT_MS)).toEqual({ kind: 'held' })
  if (successor.kind !== 'taken') throw new Error('the right was not over')
  expect(await session.endPublishing(taken, successor.token, 'failed')).toBe('recorded')
})

test('a process that was frozen while it took the right does not publish', async () => {
  const { clock, letters, publish, publishing, recorded, session } = await setUp()
  const frozen = {
    ...session,
    takePublishing: async (ref: DeadLetterRef, rightMs: number) => {
      const right = await session.takePublishing(ref, rightMs)
      clock.advance(RIGHT_MS - BUDGET_MS + 1)
      return right
    },
  }
  const settlement = await recorded()
  const answer = await publishing.publish(settlement, publish, frozen as typeof session)
  expect(answer).toEqual({ kind: 'retry', cause: 'publishing-elsewhere' })
  expect(letters).toEqual([])
})

const due = (ref: DeadLetterRef, broker: string, queue: string): DueEvent => ({
  ref,
  what: 'publish',
  delivery: { ...delivery, source: { broker, queue } },
})

test('a parked dead letter is published only by the publisher of its source', async () => {
  const { buried, letters, session, publish, publishing } = await setUp()
  const [one, two] = [await buried(), await buried()]
  const unregister = publishing.register({ broker: 'sqs', queue: 'orders' }, publish)
  expect(await publishing.publishDue(due(one, 'sqs', 'refunds'), session)).toBeUndefined()
  expect(await publishing.publishDue(due(one, 'kafka', 'orders'), session)).toBeUndefined()
  expect(await publishing.publishDue(due(one, 'sqs', 'orders'), session)).toEqual({
    kind: 'published',
  })
  unregister()
  expect(await publishing.publishDue(due(two, 'sqs', 'orders'), session)).toBeUndefined()
  // It is made from the delivery that is given, and not from the row, which may have no body.
  const source = { broker: 'sqs', queue: 'orders' }
  expect(letters).toMatchObject([{ ref: one, delivery: { ...delivery, source } }])
})

// Red when the end of one consumer takes the publisher of another one of its queue away: nobody publishes any more.
test('the publisher of another consumer of the source is used when the latest unregisters', async () => {
  const { buried, letters, session, publish, publishing } = await setUp()
  const source = { broker: 'sqs', queue: 'orders' }
  publishing.register(source, publish)
  const unregister = publishing.register(source, async () => undefined)
  unregister()
  unregister()
  const answer = await publishing.publishDue(due(await buried(), 'sqs', 'orders'), session)
  expect(answer).toEqual({ kind: 'published' })
  expect(letters).toHaveLength(1)
})

test('unregistering does not remove a publisher that was registered later', async () => {
  const { buried, letters, session, publish, publishing } = await setUp()
  const source = { broker: 'sqs', queue: 'orders' }
  const unregister = publishing.register(source, async () => undefined)
  publishing.register(source, publish)
  unregister()
  await publishing.publishDue(due(await buried(), 'sqs', 'orders'), session)
  expect(letters).toHaveLength(1)
})
