import { expect, test } from 'vitest'
import {
  beginOpen,
  counted,
  fresh,
  kindOf,
  newEvent,
  nothing,
  openInbox,
} from '../fixtures/inbox.ts'
import type { OwnerToken } from '../model/brands.ts'
import type { CountedEvent, IdentifiedEvent, InboxSession } from '../model/inbox.ts'

async function suspectOf(
  session: InboxSession<undefined>,
  event: IdentifiedEvent,
): Promise<CountedEvent> {
  const answer = await session.suspect([event], 250)
  const [suspect] = answer.kind === 'answered' ? answer.counted : []
  if (suspect === undefined) throw new Error('not counted')
  return suspect
}

test('a claim waits for an event that a transaction is changing, and then finds it done', async () => {
  const { clock, session } = await openInbox()
  const [event, other] = [newEvent(), newEvent()]
  const suspect = await suspectOf(session, event)
  const first = await beginOpen(session, counted(suspect))
  const second = session.begin(fresh(event, other))
  const waiting = clock.timers
  await first.commit(nothing)
  expect(await second).toMatchObject({ kind: 'open', claimed: new Set([other.id]) })
  expect(waiting).toBe(1)
  expect(await session.begin(counted(suspect))).toEqual({ kind: 'none' })
  // The second transaction is open, but it holds no lock of an event that it could not claim.
  expect(await session.count([event], 'alone')).not.toEqual([{ kind: 'held' }])
})

test('a claim does not wait for an event whose row is locked and stays as it is', async () => {
  const { clock, session } = await openInbox()
  const [dead, event] = [newEvent(), newEvent()]
  await session.bury([{ event: dead, attempt: 1, error: new Error('no'), reason: 'fatal' }])
  const stale = { event: dead, token: 'stale' as OwnerToken, attempt: 1 }
  await beginOpen(session, counted(await suspectOf(session, event), stale))
  const second = session.begin(fresh(dead))
  const waiting = clock.timers
  clock.advance(250)
  expect(await second).toMatchObject({ kind: 'none' })
  expect(waiting).toBe(0)
})

test('a claim of a counted event that is unknown holds no row', async () => {
  const { session } = await openInbox()
  const [unknown, event] = [newEvent(), newEvent()]
  const stale = { event: unknown, token: 'stale' as OwnerToken, attempt: 1 }
  await beginOpen(session, counted(await suspectOf(session, event), stale))
  expect((await session.begin(fresh(unknown))).kind).toBe('open')
})

test('a transaction is open until its end, and ends once', async () => {
  const { session } = await openInbox()
  const transaction = await beginOpen(session, fresh(newEvent()))
  expect(transaction.status()).toBe('open')
  await transaction.rollback()
  expect(transaction.status()).toBe('ended')
  expect(await transaction.commit(nothing)).toMatchObject({ kind: 'rolled-back' })
})

test('what a transaction has committed can be retracted, and nothing else', async () => {
  const { session } = await openInbox()
  const [mine, other] = [newEvent(), newEvent()]
  await (await beginOpen(session, fresh(other))).commit(nothing)
  const transaction = await beginOpen(session, fresh(mine))
  await transaction.commit(nothing)
  await transaction.retract([mine, other])
  expect([await kindOf(session, mine), await kindOf(session, other)]).toEqual(['absent', 'done'])
})
