import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { newEvent } from '../fixtures/inbox.ts'
import type { EventId, Fingerprint, Json } from '../model/brands.ts'
import type { IdentifiedEvent } from '../model/inbox.ts'
import { DoneMemory, type SeenDone } from './done-memory.ts'

const HOUR_MS = 3_600_000
const eventOf = (id: string, fingerprint = 1n): IdentifiedEvent => ({
  ...newEvent(),
  ...{ id: id as EventId, fingerprint: fingerprint as Fingerprint },
})
const newEvents = (count: number): readonly IdentifiedEvent[] =>
  Array.from({ length: count }, () => eventOf(randomUUID()))

function setUp({ places, windowMs = HOUR_MS }: { places?: number; windowMs?: number } = {}) {
  let nowMs = 0
  const history: { name: string | Error; reads: number } = { name: 'first', reads: 0 }
  const identity = async (): Promise<string> => {
    history.reads += 1
    if (history.name instanceof Error) throw history.name
    return history.name
  }
  const runtime = { monotonic: () => nowMs }
  const memory = new DoneMemory({ identity, runtime, dedupWindowMs: windowMs }, places)
  const wait = (ms: number): void => {
    nowMs += ms
  }
  const add = (event: IdentifiedEvent, seen: Partial<SeenDone> = {}): void =>
    memory.add(event, { history: memory.history, result: undefined, ageMs: 0, ...seen })
  /** The answer to a copy, when the name that the one before it asked for has been read. */
  const recall = async (event: IdentifiedEvent) => {
    memory.recall(event)
    await settled()
    return memory.recall(event)
  }
  /** A copy came, so the name of the history is known. */
  const learn = async (): Promise<void> => {
    const event = eventOf(randomUUID())
    add(event)
    await recall(event)
  }
  return { memory, history, wait, add, recall, learn }
}

/** Reads under way have ended. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

const DONE = { result: undefined }

test('a copy is answered from the second on, and one of the first event is not, because no history was known then', async () => {
  const { add, history, memory, recall } = setUp()
  const [early, event, other] = newEvents(3) as [IdentifiedEvent, IdentifiedEvent, IdentifiedEvent]
  add(early)
  await settled()
  add(event)
  expect(history.reads).toBe(1)
  expect(memory.recall(event)).toBeUndefined()
  expect(await recall(event)).toEqual(DONE)
  expect(await recall(early)).toBeUndefined()
  expect(await recall(other)).toBeUndefined()
  expect([early, event, other].map(({ id }) => memory.has(id))).toEqual([true, true, false])
})

test.each<[string, Json]>([
  ['text', 'é\0'],
  ['an object', { of: ['a', 1, null] }],
  ['an integer that a double cannot hold', 9_007_199_254_740_993n as unknown as Json],
])('a copy carries the result: %s', async (_, result) => {
  const { add, learn, recall } = setUp()
  await learn()
  const event = eventOf(randomUUID())
  add(event, { result })
  expect(await recall(event)).toEqual({ result })
})

// Red when a copy with another payload is answered: it is a conflict, and only the inbox records it.
test('another payload under the key is left to the inbox', async () => {
  const { add, learn, recall } = setUp()
  await learn()
  const id = randomUUID()
  add(eventOf(id, 257n))
  expect(await recall(eventOf(id, 513n))).toBeUndefined()
})

// Red when an event is remembered in the history that is known when it has ended.
test('an event that began in another history than the present one is left to the inbox', async () => {
  const { add, history, learn, memory, recall, wait } = setUp()
  await learn()
  const [before, during] = newEvents(2) as [IdentifiedEvent, IdentifiedEvent]
  const began = memory.history
  add(before)
  history.name = 'second'
  wait(2_001)
  await learn()
  expect(memory.history).toBe('second')
  add(during, { history: began })
  expect(await recall(before)).toBeUndefined()
  expect(await recall(during)).toBeUndefined()
})

test('nothing is answered while the history was read too long ago, or cannot be read', async () => {
  const { add, history, learn, memory, recall, wait } = setUp()
  await learn()
  const event = eventOf(randomUUID())
  add(event)
  wait(2_000)
  expect(memory.recall(event)).toEqual(DONE)
  await settled()
  wait(2_001)
  expect(memory.recall(event)).toBeUndefined()
  history.name = new Error('away')
  wait(2_001)
  expect(await recall(event)).toBeUndefined()
  history.name = 'first'
  expect(await recall(event)).toBeUndefined()
  wait(5_000)
  expect(await recall(event)).toEqual(DONE)
})

test.each([
  ['a minute', HOUR_MS, { ageMs: 0 }, 60_000],
  ['a third of its window', 30_000, { ageMs: 0 }, 10_000],
  ['no time, when most of its window may be over', HOUR_MS, { ageMs: HOUR_MS / 2 }, 0],
  ['no time, when its age is not known', HOUR_MS, { ageMs: undefined }, 0],
  ['no time, when its result is long', HOUR_MS, { result: 'x'.repeat(20_000) }, 0],
])('an event is answered for %s', async (_, windowMs, seen, keptMs) => {
  const { add, learn, recall, wait } = setUp({ windowMs })
  await learn()
  const event = eventOf(randomUUID())
  add(event, seen)
  if (keptMs > 0) {
    wait(keptMs - 1)
    expect(await recall(event)).toEqual(DONE)
  }
  wait(1)
  expect(await recall(event)).toBeUndefined()
})

test('results are bounded in all, and the room of forgotten ones is used again', async () => {
  const { add, learn, recall } = setUp({ places: 2_000 })
  await learn()
  const result = 'x'.repeat(16_000)
  const knownOf = async (events: readonly IdentifiedEvent[]): Promise<number> => {
    for (const event of events) add(event, { result })
    const answers = await Promise.all(events.map(recall))
    return answers.filter((answer) => answer !== undefined).length
  }
  const first = await knownOf(newEvents(2_000))
  expect(first).toBeGreaterThan(200)
  expect(first).toBeLessThanOrEqual(8_388_608 / 16_000)
  for (const event of newEvents(20_000)) add(event)
  expect(await knownOf(newEvents(300))).toBeGreaterThan(200)
})

test('the id that was added last is known, and never more ids than there are places', () => {
  fc.assert(
    fc.property(fc.array(fc.uuid()), fc.integer({ min: 2, max: 9 }), (ids, places) => {
      const { add, memory } = setUp({ places })
      const added = ids.map((id) => eventOf(id))
      for (const event of added) {
        add(event)
        expect(memory.has(event.id)).toBe(true)
      }
      const known = new Set(added.map(({ id }) => id).filter((id) => memory.has(id)))
      expect(known.size).toBeLessThanOrEqual(places)
    }),
  )
})

test('an id that was not added is never known, although all places are taken', () => {
  const { add, memory } = setUp({ places: 100 })
  for (const event of newEvents(10_000)) add(event)
  expect(newEvents(10_000).filter(({ id }) => memory.has(id))).toEqual([])
})

// Red when a digit of the id is not compared.
test('an id that differs in one digit is another one', () => {
  const { add, memory } = setUp({ places: 2 })
  const id = randomUUID()
  add(eventOf(id))
  for (let at = 0; at < id.length; at++) {
    if (id[at] === '-') continue
    const other = `${id.slice(0, at)}${id[at] === 'f' ? 'e' : 'f'}${id.slice(at + 1)}`
    expect(memory.has(other as EventId)).toBe(false)
  }
})

test('nearly all of the ids that were added last are known', () => {
  const { add, memory } = setUp()
  for (const event of newEvents(50_000)) add(event)
  const last = newEvents(10_000)
  for (const event of last) add(event)
  const known = (events: readonly IdentifiedEvent[]): number =>
    events.filter(({ id }) => memory.has(id)).length
  expect(known(last)).toBeGreaterThan(9_000)
  expect(known(last.slice(-1_000))).toBeGreaterThan(990)
})

test('an id that is added again takes no second place', () => {
  const { add, memory } = setUp({ places: 2 })
  const [first, second] = newEvents(2) as [IdentifiedEvent, IdentifiedEvent]
  add(first)
  for (let time = 0; time < 3; time++) add(second)
  expect([memory.has(first.id), memory.has(second.id)]).toEqual([true, true])
})
