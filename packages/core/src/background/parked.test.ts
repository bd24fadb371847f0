import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import { changedInbox, kindOf, newEvent, registration, silent } from '../fixtures/inbox.ts'
import { named, REFUSED, RETRY, SKIPPED, setUp, UNGUARDED } from '../fixtures/parked.ts'
import { createGuard } from '../guard/guard.ts'
import { memoryInbox, toDelivery } from '../memory/index.ts'
import type { EventKey } from '../model/brands.ts'
import { FatalError } from '../model/errors.ts'
import { portOf } from '../model/guard-port.ts'
import type { OutcomeRecord } from '../options/options.ts'

test('a replayed event keeps its stored identity, whatever the current options say', async () => {
  const { session, replayed, poll, ran, resolved } = await setUp(undefined, {
    eventKey: () => 'another key',
  })
  const event = { ...newEvent(), key: 'stored' as EventKey, delivery: toDelivery('payload') }
  await replayed(event)
  expect(await poll()).toBe(1)
  expect(ran).toEqual([['stored', 'payload', 1]])
  expect(await kindOf(session, event)).toBe('done')
  expect(await poll()).toBe(0)
  // The record belongs to an event, not to a refused message.
  expect(resolved).toEqual([])
})

// Red before: an event that was replayed and dead-lettered again had no record and no log line after the first time.
test('a parked run is reported to the hook and the log like any other run', async () => {
  const records: OutcomeRecord[] = []
  const lines: unknown[] = []
  const hear = (fields: object, message: string): void => void lines.push([message, fields])
  const observe = (record: OutcomeRecord): void => void records.push(record)
  const { replayed, refused, poll } = await setUp(
    ({ payload }) => {
      if (payload === 'bad') throw new FatalError('still broken')
    },
    { observe, logger: { ...silent, error: hear } },
  )
  const event = { ...newEvent(), delivery: toDelivery('bad') }
  await replayed(event)
  await refused(named, 'good')
  await poll()
  const byKind = records.toSorted((a, b) => a.settlement.kind.localeCompare(b.settlement.kind))
  expect(byKind).toMatchObject([
    { parked: true, settlement: { kind: 'ack', by: 'processed' } },
    { parked: true, eventId: event.id, settlement: { kind: 'dead-letter', reason: 'fatal' } },
  ])
  const line = { parked: true, eventId: event.id, source: event.delivery.source, reason: 'fatal' }
  expect(lines).toMatchObject([['event dead-lettered: fix the cause, then replay the event', line]])
})

test('a replayed event that is dead-lettered again is published once by the next poll, without a run', async () => {
  let decoded = 0
  const decode = (): void => {
    decoded += 1
  }
  const { replayed, poll, idle, published } = await setUp(
    () => {
      throw new FatalError('still broken')
    },
    { decode },
  )
  const ref = await replayed(newEvent())
  expect(await poll()).toBe(1)
  expect(published).toEqual([])
  expect(await poll()).toBe(1)
  await idle()
  expect(published).toEqual([ref])
  expect(await poll()).toBe(0)
  expect(decoded).toBe(1)
})

// Red when the poller waits for the broker: one place that hangs stops the parked events of the whole consumer.
test('a dead-letter place that hangs does not stop parked events', async () => {
  const { replayed, poll, published, ran } = await setUp(
    ({ key }) => {
      if (key === dying.key) throw new FatalError('still broken')
    },
    {},
    () => new Promise(() => undefined),
  )
  const dying = newEvent()
  const ref = await replayed(dying)
  await poll()
  const next = newEvent()
  await replayed(next)
  expect(await poll()).toBe(2)
  expect(ran.map(([key]) => key)).toEqual([dying.key, next.key])
  await new Promise((resolve) => setImmediate(resolve))
  expect(published).toEqual([ref])
  // Its right to publish is not over.
  expect(await poll()).toBe(0)
})

test('a parked event that is in flight in this process is left for later; the others run', async () => {
  const { session, flights, replayed, poll, ran } = await setUp()
  const [one, two] = [newEvent(), newEvent()]
  await replayed(one)
  await replayed(two)
  const land = flights.start(one.id)
  expect(await poll()).toBe(2)
  expect(await kindOf(session, one)).toBe('waiting')
  expect([flights.has(one.id), flights.has(two.id)]).toEqual([true, false])
  expect(ran).toHaveLength(1)
  land()
  expect(await poll()).toBe(1)
  expect(ran).toHaveLength(2)
})

test('a parked run is in flight until it ends, and copies from the broker wait no longer', async () => {
  const [one, two] = [newEvent(), newEvent()]
  const inHand: boolean[][] = []
  const look = (): void => {
    inHand.push([kit.flights.has(one.id), kit.flights.has(two.id)])
  }
  const kit = await setUp(look)
  await kit.replayed(one)
  await kit.replayed(two)
  await kit.poll()
  look()
  // The events run one after the other, because they were replayed.
  expect(inHand).toEqual([
    [true, true],
    [false, true],
    [false, false],
  ])
})

// Red when only an outcome ends the flight: copies of the event would be deferred forever.
test('no event stays in flight when a run fails unexpectedly and the log cannot be written', async () => {
  const logger = {
    ...silent,
    error: () => {
      throw new Error('the disk of the log is full')
    },
  }
  const kit = await setUp(undefined, { logger })
  const event = newEvent()
  await kit.replayed(event)
  kit.session.classify = () => Promise.reject(new Error('unforeseen'))
  expect(await kit.poll()).toBe(1)
  expect(kit.flights.has(event.id)).toBe(false)
})

test.each([
  ['version 1 is gone', REFUSED],
  [
    'The stored event is skipped by the current options. Change the options, then replay the event.',
    SKIPPED,
  ],
  [
    'The stored event is unguarded by the current options. Change the options, then replay the event.',
    UNGUARDED,
  ],
])(
  'a replayed event that the current options refuse is dead-lettered again: %s',
  async (error, given) => {
    const { memory, replayed, poll, ran } = await setUp(undefined, given)
    const ref = await replayed(newEvent())
    expect(await poll()).toBe(1)
    expect(ran).toEqual([])
    const why = `InvalidPayloadError: ${error}`
    expect(memory.deadLetters()).toMatchObject([{ ref, reason: 'fatal', error: why }])
  },
)

test('a refused message stays unchanged while it cannot be identified', async () => {
  const { refused, poll, ran, resolved } = await setUp(undefined, RETRY)
  await refused()
  expect([await poll(), await poll()]).toEqual([1, 1])
  expect([ran, resolved]).toEqual([[], []])
})

// Red before: the event stayed due, so each poll found it again before all others, without end.
test('a parked event that cannot be identified is counted, waits for its back-off, and ends', async () => {
  const retry = { attempts: 2, baseMs: 0 }
  const { session, replayed, poll, ran } = await setUp(undefined, { ...RETRY, retry })
  const event = newEvent()
  await replayed(event)
  expect(await poll()).toBe(1)
  expect(await kindOf(session, event)).toBe('waiting')
  await poll()
  expect(await kindOf(session, event)).toBe('dead')
  expect(ran).toEqual([])
})

// Red before: thousands of polls, one at every turn of the event loop.
test.each([
  ['because no message could be identified', RETRY, false],
  ['because no event could be claimed', {}, true],
])(
  'a full poll that ended nothing, %s, is not followed by the next one at once',
  async (_, given, isHeld) => {
    const clock = new Clock()
    const memory = memoryInbox()
    let polls = 0
    const inbox = changedInbox(memory, (session) => ({
      due: (limit) => {
        polls += 1
        // Searches without end would keep the test from failing.
        return polls > 100 ? Promise.resolve([]) : session.due(limit)
      },
      suspect: (...args) => (isHeld ? Promise.resolve({ kind: 'held' }) : session.suspect(...args)),
    }))
    const { runtime } = clock
    const guard = createGuard(
      { consumer: 'billing', inbox, logger: silent, runtime, ...given },
      () => undefined,
    )
    const session = await inbox.open(registration({ runtime }))
    for (let n = 0; n < 10; n += 1) {
      const delivery = toDelivery(n, { headers: { 'idempotency-key': `${n}` } })
      const error = new Error('no key')
      const [ref] = await session.refuse([{ delivery, reason: 'missing-event-key', error }])
      if (ref !== undefined) memory.replay(ref)
    }
    await portOf(guard).open()
    for (let n = 0; n < 600; n += 1) {
      clock.advance(100)
      for (let turns = 0; turns < 10; turns += 1) await turn()
    }
    expect(polls).toBeGreaterThan(3)
    expect(polls).toBeLessThan(20)
    await guard.close()
  },
)

test('a poll takes only a few events at once', async () => {
  const { replayed, poll, ran } = await setUp()
  for (let n = 0; n < 12; n += 1) await replayed(newEvent())
  expect([await poll(), await poll()]).toEqual([10, 2])
  expect(ran).toHaveLength(12)
})
