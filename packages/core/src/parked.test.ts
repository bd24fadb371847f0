import { expect, test } from 'vitest'
import type { GuardEvent } from './delivery.ts'
import { FatalError, RetryableError } from './errors.ts'
import { Clock } from './fixtures/clock.ts'
import { changedInbox, kindOf, newEvent, silent } from './fixtures/inbox.ts'
import { memoryInbox, toDelivery } from './memory.ts'
import { createOpener } from './opened.ts'
import type { InboxGuardOptions } from './options.ts'
import { runParked } from './parked.ts'
import type { DeadLetterRef, IdentifiedEvent, InboxSession } from './ports.ts'
import { createPublishing } from './publishing.ts'
import { resolveOptions } from './resolve-options.ts'
import { createSingleFlight } from './single-flight.ts'
import { stopSignals } from './stop.ts'
import type { EventKey } from './vocabulary.ts'

type Given = Partial<InboxGuardOptions<unknown, undefined>>
const source = { broker: 'memory', queue: 'memory' }

/** An open guard's poller, without the clock that drives it. */
async function setUp(handler: (event: GuardEvent<unknown>) => void = () => {}, given: Given = {}) {
  const memory = memoryInbox()
  const resolved: string[] = []
  const inbox = changedInbox(memory, (session) => ({
    resolveRefused: (id) => {
      resolved.push(id)
      return session.resolveRefused(id)
    },
  }))
  const ran: unknown[] = []
  const { runtime } = new Clock()
  const common = { consumer: 'billing', inbox, logger: silent, runtime }
  const options = resolveOptions({ ...common, ...given })
  const call = (event: GuardEvent<unknown>): void => {
    ran.push([event.key, event.payload, event.attempt])
    handler(event)
  }
  const { engine } = await createOpener(options, { kind: 'single', handler: call })()
  if (engine === undefined) throw new Error('a guard with an inbox has an engine')
  const publishing = createPublishing(options)
  const published: unknown[] = []
  publishing.register(source, async ({ ref }) => void published.push(ref))
  const flights = createSingleFlight(runtime)
  const stop = new AbortController()
  const session = engine.session as InboxSession<undefined>
  return {
    ...{ memory, session, flights, stop, ran, published, resolved },
    poll: () => runParked({ engine, publishing, flights }, stopSignals([stop.signal])),
    /** A dead event that somebody has replayed. */
    replayed: async (event: IdentifiedEvent): Promise<DeadLetterRef> => {
      await session.bury([{ event, attempt: 1, error: new Error('why'), reason: 'fatal' }])
      const ref = { kind: 'event', id: event.id } as const
      expect(memory.replay(ref)).toBe(true)
      return ref
    },
    /** A refused message that somebody has replayed. */
    refused: async (headers: Record<string, string> = {}): Promise<string> => {
      const delivery = toDelivery('payload', { headers })
      const refusal = { delivery, reason: 'missing-event-key', error: new Error('no key') } as const
      const [ref] = await session.refuse([refusal])
      if (ref?.kind !== 'refused') throw new Error('it was not refused')
      expect(memory.replay(ref)).toBe(true)
      return ref.id
    },
  }
}

const named = { 'idempotency-key': 'k' }

test('a replayed event runs under the identity it was stored with, whatever the options say today', async () => {
  const { session, replayed, poll, ran, resolved } = await setUp(undefined, {
    eventKey: () => 'another key',
  })
  const event = { ...newEvent(), key: 'stored' as EventKey, delivery: toDelivery('payload') }
  await replayed(event)
  expect(await poll()).toBe(1)
  expect(ran).toEqual([['stored', 'payload', 1]])
  expect(await kindOf(session, event)).toBe('done')
  expect(await poll()).toBe(0)
  // Its record is that of an event, not of a refused message.
  expect(resolved).toEqual([])
})

test('a replayed event that dies again is published by the next look, once', async () => {
  const { replayed, poll, published } = await setUp(() => {
    throw new FatalError('still broken')
  })
  const ref = await replayed(newEvent())
  expect(await poll()).toBe(1)
  expect(published).toEqual([])
  expect(await poll()).toBe(1)
  expect(published).toEqual([ref])
  expect(await poll()).toBe(0)
})

test('an event that this process has in hand is left for later; the others run', async () => {
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

test('what runs here is in hand until it has ended: a copy from the broker waits no longer', async () => {
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
  // They run one after the other, because they were replayed.
  expect(inHand).toEqual([
    [true, true],
    [false, true],
    [false, false],
  ])
})

// Red when only an outcome ends a flight: copies of the event would be deferred for ever.
test('nothing stays in hand when a run fails in a way that nobody foresaw', async () => {
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
  await expect(kit.poll()).rejects.toThrow('the disk of the log is full')
  expect(kit.flights.has(event.id)).toBe(false)
})

const RETRY: Given = {
  decode: () => {
    throw new RetryableError('the registry is down')
  },
}
const REFUSED: Given = {
  decode: () => {
    throw new Error('version 1 is gone')
  },
}
const SKIPPED: Given = { skip: () => true }
const UNGUARDED: Given = { eventKey: () => undefined, onMissingKey: 'unguarded' }

test.each([
  ['`decode` threw Error: version 1 is gone', REFUSED],
  ["The stored event is skipped by today's options.", SKIPPED],
  ["The stored event is unguarded by today's options.", UNGUARDED],
])('a replayed event that cannot run any more is dead again: %s', async (error, given) => {
  const { memory, replayed, poll, ran } = await setUp(undefined, given)
  const ref = await replayed(newEvent())
  expect(await poll()).toBe(1)
  expect(ran).toEqual([])
  const why = `InvalidPayloadError: ${error}`
  expect(memory.deadLetters()).toMatchObject([{ ref, reason: 'fatal', error: why }])
})

test('what cannot be told yet stays as it is: events and refused messages', async () => {
  const { session, replayed, refused, poll, ran, resolved } = await setUp(undefined, RETRY)
  const event = newEvent()
  await replayed(event)
  await refused()
  expect(await poll()).toBe(2)
  expect(await poll()).toBe(2)
  expect(await kindOf(session, event)).toBe('waiting')
  expect([ran, resolved]).toEqual([[], []])
})

test('a refused message that has a key now runs as an event, and its record goes', async () => {
  const { memory, refused, poll, ran, resolved } = await setUp()
  const id = await refused(named)
  expect(await poll()).toBe(1)
  expect(ran).toEqual([['k', 'payload', 1]])
  expect(resolved).toEqual([id])
  expect(memory.deadLetters()).toEqual([])
})

test('a refused message whose run fails keeps its record: nothing else brings it back', async () => {
  const { refused, poll, published, resolved } = await setUp(() => {
    throw new Error('not now')
  })
  await refused(named)
  await poll()
  expect([resolved, published]).toEqual([[], []])
  expect(await poll()).toBe(1)
})

test('a refused message that dies as an event is published as that, and its record goes', async () => {
  const { memory, refused, poll, published, resolved } = await setUp(() => {
    throw new FatalError('no such customer')
  })
  const id = await refused(named)
  await poll()
  expect(published).toEqual([{ kind: 'event', id: expect.any(String) }])
  expect(resolved).toEqual([id])
  expect(memory.deadLetters()).toMatchObject([{ key: 'k', ref: { kind: 'event' } }])
})

test('a message that is refused again waits for the next replay, with what was found this time', async () => {
  const { memory, refused, poll, ran, resolved } = await setUp()
  await refused()
  expect(await poll()).toBe(1)
  expect(await poll()).toBe(0)
  expect([ran, resolved]).toEqual([[], []])
  const error = expect.stringContaining('No resolver of `eventKey` found a key.')
  expect(memory.deadLetters()).toMatchObject([{ reason: 'missing-event-key', error }])
})

test('a refused message that is skipped now goes without a run', async () => {
  const { memory, refused, poll, ran, resolved } = await setUp(undefined, SKIPPED)
  const id = await refused()
  expect(await poll()).toBe(1)
  expect([ran, resolved]).toEqual([[], [id]])
  expect(memory.deadLetters()).toEqual([])
})

test('a refused message that runs unguarded now keeps its record until it has run', async () => {
  let isBroken = true
  const { refused, poll, stop, ran, resolved } = await setUp(() => {
    if (isBroken) throw new Error('not now')
  }, UNGUARDED)
  const id = await refused()
  await poll()
  expect(ran).toHaveLength(1)
  expect(resolved).toEqual([])
  isBroken = false
  await poll()
  expect(ran).toHaveLength(2)
  expect(resolved).toEqual([id])
  await refused()
  stop.abort()
  await poll()
  expect(ran).toHaveLength(2)
})

test('a few are taken at once', async () => {
  const { replayed, poll, ran } = await setUp()
  for (let n = 0; n < 12; n += 1) await replayed(newEvent())
  expect([await poll(), await poll()]).toEqual([10, 2])
  expect(ran).toHaveLength(12)
})
