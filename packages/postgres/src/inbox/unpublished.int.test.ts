import type { DeadLetterRef } from '@onceward/core/ports'
import { newDelivery, newEvent, Steps } from '@onceward/testing/conformance'
import type pg from 'pg'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { all, type TestInbox, testInbox } from '../fixtures/inbox.ts'

const DAY_MS = 86_400_000
const RIGHT_MS = 15_000

type Session = Steps<pg.PoolClient>['session']
let inbox: TestInbox

beforeEach(async () => {
  inbox = await testInbox()
})
afterEach(() => inbox[Symbol.asyncDispose]())

/** One dead letter of each kind, with its id. */
async function deadLetters(session: Session): Promise<readonly DeadLetterRef[]> {
  const event = newEvent()
  await new Steps(session, inbox.pass).buried(event)
  const refusal = { delivery: newDelivery(), reason: 'invalid-payload', error: 'x' } as const
  return [{ kind: 'event', id: event.id }, ...(await session.refuse([refusal]))]
}

async function tryToPublish(
  session: Session,
  ref: DeadLetterRef,
  as: 'published' | 'failed',
): Promise<void> {
  const right = await session.takePublishing(ref, RIGHT_MS)
  if (right.kind !== 'taken') throw new Error(right.kind)
  await session.endPublishing(ref, right.token, as)
}

const idsOf = (refs: readonly DeadLetterRef[]): readonly string[] => refs.map(({ id }) => id).sort()

async function left(): Promise<readonly string[]> {
  return (await all(inbox.deadLetters.list())).map(({ id }) => id).sort()
}

async function passThirtyDays(): Promise<void> {
  await inbox.pass(31 * DAY_MS)
  expect(await inbox.session.sweep()).toMatchObject({ finished: true })
}

// Red when age alone decides: a dead letter that waits for its place is all that is left of its message.
it('a dead letter of a consumer with a place stays until it is published or discarded', async () => {
  const { session } = inbox
  const other = await inbox.open({ consumer: 'without-place' })
  const [failed, untried, published, discarded] = [
    await deadLetters(session),
    await deadLetters(session),
    await deadLetters(session),
    await deadLetters(session),
  ]
  await deadLetters(other)
  for (const ref of failed) await tryToPublish(session, ref, 'failed')
  for (const ref of published) await tryToPublish(session, ref, 'published')
  for (const { id } of discarded) await inbox.deadLetters.discard(id, 'a test')
  await passThirtyDays()
  // A consumer without a place has no other record than the row, which is kept for thirty days.
  expect(await left()).toEqual(idsOf([...failed, ...untried]))
  await inbox.pass(365 * DAY_MS)
  await passThirtyDays()
  expect(await left()).toEqual(idsOf([...failed, ...untried]))
  for (const ref of failed) await tryToPublish(session, ref, 'published')
  for (const { id } of untried) await inbox.deadLetters.discard(id, 'a test')
  expect(await inbox.session.sweep()).toMatchObject({ finished: true })
  expect(await left()).toEqual([])
  const { rows } = await inbox.pool.query('select from onceward.processed_events')
  expect(rows).toEqual([])
})

it('a guard of the same consumer that gets a place later keeps what is there, also for guards without one', async () => {
  const letters = await deadLetters(inbox.session)
  const later = await inbox.open()
  const [first] = letters
  if (first === undefined) throw new Error('no dead letter')
  // The process dies while it has the right.
  expect(await later.takePublishing(first, RIGHT_MS)).toMatchObject({ kind: 'taken' })
  const without = await inbox.open()
  const more = await deadLetters(without)
  await passThirtyDays()
  expect(await without.sweep()).toMatchObject({ finished: true })
  expect(await left()).toEqual(idsOf([...letters, ...more]))
})

it('an operator ends it for a consumer whose place is gone for good', async () => {
  const letters = await deadLetters(inbox.session)
  for (const ref of letters) await tryToPublish(inbox.session, ref, 'failed')
  await passThirtyDays()
  expect(await left()).toEqual(idsOf(letters))
  await inbox.pool.query("update onceward.consumers set has_place = false where name = 'billing'")
  expect(await inbox.session.sweep()).toMatchObject({ finished: true })
  expect(await left()).toEqual([])
})
