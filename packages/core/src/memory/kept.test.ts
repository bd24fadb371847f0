import { expect, test } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import { beginOpen, fresh, newEvent, nothing, openInbox } from '../fixtures/inbox.ts'
import { MemoryTables } from './tables.ts'
import { toDelivery } from './to-delivery.ts'

const error = new Error('no')

test('a lock has one holder, who alone gives it back', () => {
  const { locks } = new MemoryTables()
  const { id } = newEvent()
  const [holder, other] = [{}, {}]
  expect([locks.tryTake(id, holder), locks.tryTake(id, holder)]).toEqual([true, true])
  expect(locks.tryTake(id, other)).toBe(false)
  locks.release([id], other)
  expect(locks.holderOf(id)).toBe(holder)
  locks.release([id], holder)
  expect(locks.holderOf(id)).toBeUndefined()
  // A lock that nobody holds is given back without an error.
  locks.release([id], holder)
})

test('the store keeps the clock of the guard that opened it first', () => {
  const [first, second] = [new Clock(), new Clock()]
  const tables = new MemoryTables()
  tables.setClock(first.runtime)
  tables.setClock(second.runtime)
  first.advance(60_000)
  expect(tables.nowMs()).toBe(first.runtime.monotonic())
})

test('of a message that is parked again, the newer delivery runs', async () => {
  const { session } = await openInbox()
  const event = newEvent()
  await session.fail([{ event, attempt: 1, error, delayMs: 0 }])
  const delivery = toDelivery('newer')
  const again = { ...event, key: 'other' as typeof event.key, delivery }
  expect(await session.park([again], 250)).toEqual([{ kind: 'parked' }])
  expect(await session.due(10)).toMatchObject([{ delivery, identity: { key: event.key } }])
})

test('no more events are due than were asked for', async () => {
  const { session } = await openInbox()
  await session.park([newEvent(), newEvent(), newEvent()], 250)
  expect(await session.due(2)).toHaveLength(2)
})

test('a failure without a token is lost while another transaction has the event', async () => {
  const { session } = await openInbox()
  const event = newEvent()
  const transaction = await beginOpen(session, fresh(event))
  const failure = { event, attempt: 1, error, delayMs: 0 }
  expect(await session.fail([failure])).toEqual(['lost'])
  await transaction.rollback()
  expect(await session.fail([failure])).toEqual(['recorded'])
})

test('a sweep keeps what is as old as the window, and deletes a thousand rows in a step', async () => {
  const { clock, session } = await openInbox({ dedupWindowMs: 60_000 })
  for (let n = 0; n < 1_001; n += 1) {
    await (await beginOpen(session, fresh(newEvent()))).commit(nothing)
  }
  clock.advance(60_000)
  expect(await session.sweep?.()).toEqual({ deleted: 0, finished: true })
  clock.advance(1)
  expect(await session.sweep?.()).toEqual({ deleted: 1_000, finished: false })
  expect(await session.sweep?.()).toEqual({ deleted: 1, finished: true })
})

test('a replayed dead letter is none any more', async () => {
  const { inbox, session } = await openInbox()
  const event = newEvent()
  await session.bury([{ event, attempt: 1, error, reason: 'fatal' }])
  expect(inbox.replay({ kind: 'event', id: event.id })).toBe(true)
  expect(inbox.deadLetters()).toEqual([])
})

test('the right to publish ends at its time', async () => {
  const { clock, session } = await openInbox()
  const event = newEvent()
  await session.bury([{ event, attempt: 1, error, reason: 'fatal' }])
  const ref = { kind: 'event', id: event.id } as const
  expect(await session.takePublishing(ref, 1_000)).toMatchObject({ kind: 'taken' })
  clock.advance(999)
  expect(await session.takePublishing(ref, 1_000)).toEqual({ kind: 'held' })
  clock.advance(1)
  expect(await session.takePublishing(ref, 1_000)).toMatchObject({ kind: 'taken' })
})

test('a replayed message that is refused again waits for the next replay', async () => {
  const { inbox, session } = await openInbox()
  const refusal = { delivery: toDelivery('bad'), reason: 'invalid-payload', error } as const
  const [ref] = await session.refuse([refusal])
  if (ref === undefined) throw new Error('not refused')
  expect(inbox.replay(ref)).toBe(true)
  expect(await session.due(10)).toHaveLength(1)
  await session.refuse([refusal])
  expect(await session.due(10)).toEqual([])
})
