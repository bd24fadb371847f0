import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createGuard, type Delivery, FatalError } from '@onceward/core'
import { portOf } from '@onceward/core/adapter'
import { systemRuntime } from '@onceward/core/ports'
import {
  counted,
  newDelivery,
  newEvent,
  RIGHT_MS,
  registration,
} from '@onceward/testing/conformance'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { all, type TestInbox, testInbox } from './fixtures/inbox.ts'
import { pgInbox } from './pg.ts'
import { PART_BYTES } from './statements/delivery-columns.ts'

const MIB = 1024 * 1024
const LARGE = 20 * MIB
const none = (): void => undefined

let inbox: TestInbox

beforeEach(async () => {
  inbox = await testInbox()
})
afterEach(() => inbox[Symbol.asyncDispose]())

/** Bytes that no compression makes small and that differ in every piece. */
function bytesOf(size: number): Uint8Array {
  const bytes = new Uint32Array(Math.ceil(size / 4))
  let state = 1
  for (let index = 0; index < bytes.length; index += 1) {
    state = Math.imul(state, 1_664_525) + 1_013_904_223
    bytes[index] = state
  }
  return new Uint8Array(bytes.buffer, 0, size)
}

const parts = async (): Promise<number> => {
  const { rows } = await inbox.pool.query(
    `select (select count(*) from ${inbox.schema}.failed_event_parts)::int
      + (select count(*) from ${inbox.schema}.refused_message_parts)::int as n`,
  )
  return rows[0].n
}

const isEqual = (a: Uint8Array | undefined, b: Uint8Array): boolean =>
  a !== undefined && Buffer.compare(a, b) === 0

// Red when a body beyond 16 MiB is left out of its row, and the original is settled all the same.
test('a body of 20 MiB is stored whole, published whole and replayed whole', async () => {
  const { deadLetters, session, steps } = inbox
  const body = bytesOf(LARGE + 1)
  const event = newEvent({ delivery: newDelivery({ body }) })
  const ref = await steps.buried(event)
  expect(await parts()).toBe(Math.ceil((LARGE + 1) / PART_BYTES))
  expect(await session.isWhole?.(ref, event.delivery)).toBe(true)
  expect(isEqual((await steps.published(ref))?.delivery.body, body)).toBe(true)
  expect(isEqual((await deadLetters.show(event.id))?.delivery.body, body)).toBe(true)
  const [listed] = await all(deadLetters.list())
  expect(isEqual(listed?.delivery.body, body)).toBe(true)
  expect(await deadLetters.replay(event.id)).toMatchObject({ done: [event.id] })
  const [due] = await session.due(10)
  expect(isEqual(due?.delivery.body, body)).toBe(true)
  await steps.commit(counted(await steps.countAlone(event)))
  expect(await parts()).toBe(0)
})

test('a large body is stored whole by a count that finds the attempts spent, and by a refusal', async () => {
  const { deadLetters, pass, session, steps } = inbox
  const body = bytesOf(3 * MIB)
  const event = newEvent({ delivery: newDelivery({ body }) })
  const first = await steps.suspect(event)
  await session.fail([{ ...first, error: 'x', delayMs: 0 }])
  for (let attempt = 2; attempt <= 3; attempt += 1) await steps.countAlone(event)
  await pass(6_000)
  expect(await session.count([event], 'alone')).toMatchObject([{ kind: 'buried' }])
  const ref = { kind: 'event', id: event.id } as const
  expect(isEqual((await steps.published(ref))?.delivery.body, body)).toBe(true)
  expect(await deadLetters.discard(event.id, 'a test')).toMatchObject({ done: [event.id] })
  expect(await parts()).toBe(0)
  const refusal = { delivery: event.delivery, reason: 'invalid-payload', error: 'bad' } as const
  const [refused] = await session.refuse([refusal])
  if (refused === undefined) throw new Error('refuse() gave no answer')
  await session.refuse([refusal])
  expect(isEqual((await steps.published(refused))?.delivery.body, body)).toBe(true)
  await session.resolveRefused(refused.id)
  await deadLetters.replay(refused.id)
  await session.resolveRefused(refused.id)
  expect(await parts()).toBe(0)
})

test('a parked event keeps its large body, whatever a copy brings', async () => {
  const { deadLetters, session, steps } = inbox
  const body = bytesOf(3 * MIB)
  const event = newEvent({ delivery: newDelivery({ body }) })
  const ref = await steps.buried(event)
  await deadLetters.replay(event.id)
  const { token, attempt } = await steps.countAlone(event)
  const copy = { ...event, delivery: newDelivery({ body: new Uint8Array(5 * MIB) }) }
  await session.bury([{ event: copy, token, attempt, error: 'x', reason: 'fatal' }])
  expect(isEqual((await steps.published(ref))?.delivery.body, body)).toBe(true)
})

test('beyond the bound the row says so, and is made whole once the bound is raised', async () => {
  const { deadLetters, pool, session, steps } = inbox
  const bounded = await pgInbox(pool, { maxStoredBytes: PART_BYTES }).open(
    registration(systemRuntime),
  )
  const delivery = newDelivery({ body: bytesOf(3 * MIB), envelope: Uint8Array.of(1, 2) })
  const event = newEvent({ delivery })
  await bounded.bury([{ event, attempt: 1, error: 'x', reason: 'fatal' }])
  const [refused] = await bounded.refuse([{ delivery, reason: 'invalid-payload', error: 'x' }])
  if (refused === undefined) throw new Error('refuse() gave no answer')
  const untouched = [{ id: event.id, why: 'not-stored' }]
  expect(await deadLetters.replay(event.id)).toEqual({ done: [], untouched })
  for (const ref of [{ kind: 'event', id: event.id } as const, refused]) {
    expect(await bounded.isWhole?.(ref, delivery)).toBe(false)
    expect(await session.isWhole?.(ref, delivery)).toBe(true)
    // Lowered again, the bound takes nothing away.
    expect(await bounded.isWhole?.(ref, delivery)).toBe(true)
    const letter = await steps.published(ref)
    expect(isEqual(letter?.delivery.body, delivery.body)).toBe(true)
    expect(letter?.delivery).toMatchObject({
      headers: delivery.headers,
      envelope: delivery.envelope,
    })
  }
})

// Red when the guard settles a message that nothing holds.
test('a dead message beyond the bound is deferred and reported, until it has a place', async () => {
  const { pool } = inbox
  const settled: unknown[] = []
  const errors: string[] = []
  const logger = {
    ...{ debug: () => undefined, info: () => undefined, warn: () => undefined },
    error: (_: object, text: string) => void errors.push(text),
  }
  const guardOf = (maxStoredBytes: number) =>
    createGuard(
      {
        ...{ consumer: 'billing', inbox: pgInbox(pool, { maxStoredBytes }), logger },
        ...{ decode: () => ({}), eventKey: () => 'large', concurrency: 2 },
        observe: ({ settlement, cause }) => void settled.push([settlement.kind, cause]),
      },
      () => {
        throw new FatalError('no')
      },
    )
  const delivery = newDelivery({ body: bytesOf(3 * MIB) })
  const small = guardOf(PART_BYTES)
  for (const _ of [1, 2]) {
    expect(await small.process(delivery)).toMatchObject({
      ...{ kind: 'defer', reason: 'failed', cause: 'not-stored' },
      error: { message: expect.stringMatching(/maxStoredBytes.*deadLetter/) },
    })
  }
  expect(errors).toContain(
    'a dead letter is too large to store and its message is deferred: raise `maxStoredBytes` or configure `deadLetter`',
  )
  expect(settled).toEqual([
    ['defer', 'not-stored'],
    ['defer', 'not-stored'],
  ])
  await small.close()
  const large = guardOf(4 * MIB)
  expect(await large.process(delivery)).toMatchObject({ kind: 'dead-letter', reason: 'fatal' })
  await large.close()
  expect(await parts()).toBe(2)
})

// Red when the dead letter of an item is made from its row: it has no body, and the message is acked.
test('a dead item beyond the bound is published whole', async () => {
  const { pool } = inbox
  const logger = { debug: none, info: none, warn: none, error: none }
  const guard = createGuard(
    {
      ...{ consumer: 'billing', inbox: pgInbox(pool, { maxStoredBytes: PART_BYTES }), logger },
      split: ({ payload }) => (payload as { items: readonly string[] }).items,
      eventKey: ({ payload }) => String(payload).slice(0, 10),
      concurrency: 2,
    },
    ({ payload }) => {
      if (String(payload).startsWith('dead')) throw new FatalError('no')
    },
  )
  const items = ['dead'.padEnd(3 * MIB, 'x'), 'alive']
  const whole = newDelivery({ body: Buffer.from(JSON.stringify({ items })), raw: { items } })
  const published: Delivery[] = []
  portOf(guard).registerPublisher(whole.source, async ({ delivery }) => {
    published.push(delivery)
  })
  expect(await guard.process(whole)).toMatchObject({ kind: 'ack', by: 'processed' })
  expect(published.map(({ body }) => Buffer.from(body).toString())).toEqual([
    JSON.stringify(items[0]),
  ])
  // The client's message is not that of the item.
  expect(published[0]?.raw).toBeUndefined()
  await guard.close()
})

test('storing and reading a large body needs memory for some pieces, not for copies of it', async () => {
  const { session, steps } = inbox
  const size = 96 * MIB
  const event = newEvent({ delivery: newDelivery({ body: bytesOf(size) }) })
  const sampler = sampleMemory()
  const ref = await steps.buried(event)
  const storing = sampler.highest()
  expect(storing).toBeLessThan(size / 2)
  const taken = await session.takePublishing(ref, RIGHT_MS)
  expect(taken).toMatchObject({ kind: 'taken', letter: { delivery: { body: { length: size } } } })
  expect(sampler.highest()).toBeLessThan(2 * size)
  sampler.stop()
})

/** Bytes outside and inside the heap beyond those at the start, by the collector's own count of what is alive. */
function sampleMemory(): { highest(): number; stop(): void } {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const used = (): number => {
    collect()
    const { arrayBuffers, heapUsed } = process.memoryUsage()
    return arrayBuffers + heapUsed
  }
  const before = used()
  let highest = 0
  const timer = setInterval(() => {
    highest = Math.max(highest, used() - before)
  }, 5)
  return { highest: () => highest, stop: () => clearInterval(timer) }
}
