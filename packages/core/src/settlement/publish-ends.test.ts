import { expect, test } from 'vitest'
import { newEvent, openInbox, silent } from '../fixtures/inbox.ts'
import { toDelivery } from '../memory/to-delivery.ts'
import type { DeadLetter, DeadLetterRef, Publish } from '../model/dead-letter.ts'
import { EnvelopeError } from '../model/errors.ts'
import type { Settlement } from '../model/settlement.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { registerEnvelopeReader } from '../support/adapter-registry.ts'
import { createDeadLetterPublisher } from './publish-dead-letter.ts'

const error = new Error('no such customer')
const delivery = toDelivery({ order: 1 })
const RIGHT_MS = 15_000
const BUDGET_MS = 10_000
const SOURCE = { broker: 'sqs', queue: 'orders' }
const down: Publish = () => Promise.reject(new Error('no route'))

type Session = Awaited<ReturnType<typeof openInbox>>['session']

/** What a publisher calls of a session, some of it changed. */
const changed = (session: Session, over: Partial<Session>): Session =>
  ({
    takePublishing: session.takePublishing.bind(session),
    endPublishing: session.endPublishing.bind(session),
    ...over,
  }) as Session

/** A publisher of dead letters on an inbox in memory, with the lines that it logs. */
async function setUp() {
  const { clock, session } = await openInbox()
  const logged: (readonly [string, string, object])[] = []
  const note = (level: string) => (fields: object, message: string) =>
    void logged.push([level, message, fields])
  const logger = { ...silent, debug: note('debug'), error: note('error') }
  const options = { consumer: 'billing', logger, runtime: clock.runtime }
  const closing = new AbortController()
  const publishing = createDeadLetterPublisher(
    options as unknown as ResolvedOptions,
    closing.signal,
  )
  const letters: DeadLetter[] = []
  const publish: Publish = async (letter) => void letters.push(letter)
  const buried = async (): Promise<DeadLetterRef> => {
    const event = newEvent()
    await session.bury([{ event, attempt: 1, error, reason: 'fatal' }])
    return { kind: 'event', id: event.id }
  }
  const settle = (ref?: DeadLetterRef, thrown: unknown = error): Settlement => {
    const settlement = { kind: 'dead-letter', reason: 'fatal' } as Settlement
    const outcome = { kind: 'dead', reason: 'fatal', attempt: 2, error: thrown, ref } as const
    publishing.note(settlement, { delivery, key: 'k', eventId: undefined, outcome })
    return settlement
  }
  return { clock, closing, session, logged, letters, publish, publishing, buried, settle }
}

test('a dead letter that has a record, but no inbox to mark it in, is published under its id', async () => {
  const { buried, letters, publish, publishing, settle } = await setUp()
  const ref = await buried()
  expect(await publishing.publish(settle(ref), publish, undefined)).toEqual({ kind: 'published' })
  expect(letters).toMatchObject([{ ref, error: 'no such customer' }])
})

test('a dead letter without an error has no error text', async () => {
  const { letters, publish, publishing, settle } = await setUp()
  const settlement = settle()
  await publishing.publish(settlement, publish, undefined)
  const bare = { kind: 'dead-letter', reason: 'fatal' } as Settlement
  const outcome = { kind: 'dead', reason: 'fatal', attempt: 1 } as const
  publishing.note(bare, { delivery, key: undefined, eventId: undefined, outcome })
  await publishing.publish(bare, publish, undefined)
  expect(letters.map((letter) => letter.error)).toEqual(['no such customer', undefined])
})

test('while the place is down, the failed call is logged as an error and what waits for it as detail', async () => {
  const { logged, publishing, settle } = await setUp()
  const [first, second] = [settle(), settle()]
  const answer = { kind: 'retry', cause: 'dead-letter-place-down' }
  expect(await publishing.publish(first, down, undefined)).toMatchObject(answer)
  expect(await publishing.publish(second, down, undefined)).toEqual(answer)
  const fields = {
    ...{ consumer: 'billing', cause: 'dead-letter-place-down', eventId: expect.any(String) },
    err: expect.objectContaining({ message: 'no route' }),
  }
  expect(logged).toEqual([
    ['error', expect.stringContaining('could not be published'), fields],
    ['debug', 'a dead letter waits for the dead-letter place', fields],
  ])
})

test('calls without an inbox free their slot, however they end', async () => {
  const { clock, letters, publish, publishing, settle } = await setUp()
  let isDown = true
  const place: Publish = (letter) => (isDown ? down(letter) : publish(letter))
  for (let n = 0; n < 20; n++) await publishing.publish(settle(), place, undefined)
  isDown = false
  clock.advance(60_000)
  for (let n = 0; n < 20; n++) await publishing.publish(settle(), place, undefined)
  expect(letters).toHaveLength(20)
})

test('a full place makes a dead letter without an inbox wait for its retry', async () => {
  const { clock, publishing, settle } = await setUp()
  const silence: Publish = () => new Promise<void>(() => undefined)
  const all = Array.from({ length: 9 }, () => publishing.publish(settle(), silence, undefined))
  expect(await clock.until(all[8] as (typeof all)[number])).toEqual({
    ...{ kind: 'retry', cause: 'dead-letter-place-down' },
  })
})

test('an outage names each registered place that is down once, with its error', async () => {
  const { buried, publish, publishing, session, settle } = await setUp()
  publishing.register(SOURCE, publish)
  publishing.register(SOURCE, down)
  publishing.register({ ...SOURCE, queue: 'refunds' }, down)
  publishing.register({ ...SOURCE, queue: 'never asked' }, async () => undefined)
  expect(publishing.outages()).toEqual([])
  await publishing.publish(settle(await buried()), publish, session)
  await publishing.publish(settle(await buried()), down, session)
  expect(publishing.outages()).toEqual([
    { dependency: 'dead-letters', error: expect.objectContaining({ message: 'no route' }) },
  ])
})

test('a right of which just enough is left is used', async () => {
  const { buried, clock, letters, publish, publishing, session, settle } = await setUp()
  const takePublishing: typeof session.takePublishing = async (ref, rightMs) => {
    const right = await session.takePublishing(ref, rightMs)
    clock.advance(RIGHT_MS - BUDGET_MS)
    return right
  }
  await publishing.publish(settle(await buried()), publish, changed(session, { takePublishing }))
  expect(letters).toHaveLength(1)
})

test('a confirmation that is not recorded is left to the next delivery', async () => {
  const { buried, publish, publishing, session, settle } = await setUp()
  const lost = changed(session, { endPublishing: async () => 'lost' })
  expect(await publishing.publish(settle(await buried()), publish, lost)).toEqual({
    ...{ kind: 'retry', cause: 'publishing-elsewhere' },
  })
})

test.each([true, false])(
  'a late confirmation is recorded unless the guard closes: %s',
  async (isClosing) => {
    const { buried, clock, closing, publishing, session, settle } = await setUp()
    const gate = Promise.withResolvers<void>()
    const ref = await buried()
    await clock.until(publishing.publish(settle(ref), () => gate.promise, session))
    if (isClosing) closing.abort()
    gate.resolve()
    await new Promise((resolve) => setImmediate(resolve))
    clock.advance(RIGHT_MS)
    const right = await session.takePublishing(ref, RIGHT_MS)
    expect(right.kind).toBe(isClosing ? 'taken' : 'already')
  },
)

test('a late confirmation that cannot be recorded is logged and ends nothing else', async () => {
  const { buried, clock, logged, publishing, session, settle } = await setUp()
  const gate = Promise.withResolvers<void>()
  const ref = await buried()
  const failing = changed(session, { endPublishing: () => Promise.reject(new Error('gone')) })
  await clock.until(publishing.publish(settle(ref), () => gate.promise, failing))
  gate.resolve()
  await new Promise((resolve) => setImmediate(resolve))
  expect(logged.at(-1)).toEqual([
    'debug',
    'the late end of publishing a dead letter was not recorded',
    {
      ...{ consumer: 'billing', eventId: ref.id },
      err: expect.objectContaining({ message: 'gone' }),
    },
  ])
})

test('closing waits for calls that run', async () => {
  const { buried, publishing, session, settle } = await setUp()
  const gate = Promise.withResolvers<void>()
  const ends: string[] = []
  const call = publishing.publish(settle(await buried()), () => gate.promise, session)
  void call.then(() => ends.push('published'))
  const idle = Promise.resolve(publishing.idle()).then(() => ends.push('idle'))
  await new Promise((resolve) => setImmediate(resolve))
  expect(ends).toEqual([])
  gate.resolve()
  await idle
  await call
  expect(ends.toSorted()).toEqual(['idle', 'published'])
})

test('a parked dead letter whose envelope cannot be read is published from its text, and logged', async () => {
  const { letters, logged, publish, publishing, session } = await setUp()
  registerEnvelopeReader('unreadable', () => {
    throw new EnvelopeError('a later version')
  })
  const source = { broker: 'unreadable', queue: 'orders' }
  const stored = { ...delivery, source, envelope: Uint8Array.of(1) }
  const event = { ...newEvent(), delivery: stored }
  await session.bury([{ event, attempt: 1, error, reason: 'fatal' }])
  const ref = { kind: 'event', id: event.id } as const
  publishing.register(source, publish)
  const answer = await publishing.publishDue({ ref, what: 'publish', delivery: stored }, session)
  expect(answer).toEqual({ kind: 'published' })
  expect(letters).toMatchObject([{ ref, delivery: { source, body: delivery.body } }])
  expect(logged).toEqual([
    [
      'error',
      expect.stringContaining('its envelope cannot be read'),
      { id: event.id, err: expect.objectContaining({ message: 'a later version' }) },
    ],
  ])
})
