import { describe, expect, test } from 'vitest'
import { beginOpen, counted, fresh, newEvent, openInbox } from '../fixtures/inbox.ts'
import type { CountedEvent, IdentifiedEvent, InboxSession } from '../model/inbox.ts'

async function suspectOne(
  session: InboxSession<undefined>,
  event: IdentifiedEvent,
): Promise<CountedEvent> {
  const answer = await session.suspect([event], 250)
  if (answer.kind !== 'answered' || answer.counted[0] === undefined) throw new Error('not counted')
  return answer.counted[0]
}

describe('a suspect', () => {
  test('belongs to a live owner for five seconds, then to the process that counts it', async () => {
    const { session, clock } = await openInbox()
    const event = newEvent()
    const first = await suspectOne(session, event)
    clock.advance(4_999)
    expect(await session.count([event], 'alone')).toEqual([{ kind: 'held' }])
    clock.advance(1)
    expect(await session.count([event], 'together')).toEqual([{ kind: 'changed' }])
    const [second] = await session.count([event], 'alone')
    expect(second).toMatchObject({ kind: 'counted', attempt: 2 })
    expect(await session.begin(counted(first))).toEqual({ kind: 'none' })
    expect(await session.fail([{ ...first, error: new Error('late'), delayMs: 0 }])).toEqual([
      'lost',
    ])
  })

  test('cannot be counted while its transaction is open', async () => {
    const { session, clock } = await openInbox()
    const event = newEvent()
    await beginOpen(session, counted(await suspectOne(session, event)))
    clock.advance(60_000)
    expect(await session.count([event], 'alone')).toEqual([{ kind: 'held' }])
  })
})

test('an event that another transaction is inserting is not to be counted', async () => {
  const { session } = await openInbox()
  const event = newEvent()
  await beginOpen(session, fresh(event))
  expect(await session.count([event], 'together')).toEqual([{ kind: 'changed' }])
})

describe('a verdict', () => {
  test('that gives an attempt back lets the event run together with others again', async () => {
    const { session } = await openInbox()
    const event = newEvent()
    await session.fail([{ event, attempt: 1, error: new Error('no'), delayMs: 0 }])
    const [answer] = await session.count([event], 'together')
    if (answer?.kind !== 'counted') throw new Error(`not counted: ${answer?.kind}`)
    await session.release([{ event, token: answer.token, as: 'given-back' }])
    expect(await session.classify([event])).toMatchObject([
      { kind: 'waiting', attempt: 1, alone: false },
    ])
  })

  test('of a clean run that failed is recorded together with the rollback', async () => {
    const { session, clock } = await openInbox()
    const event = newEvent()
    const transaction = await beginOpen(session, fresh(event))
    const failure = { event, attempt: 1, error: new Error('card declined'), delayMs: 1_000 }
    expect(await transaction.rollbackAndFail([failure])).toEqual(['recorded'])
    expect(await session.classify([event])).toMatchObject([
      { kind: 'waiting', attempt: 1, remainingMs: 1_000, alone: false },
    ])
    expect(await session.count([event], 'together')).toEqual([{ kind: 'changed' }])
    clock.advance(1_000)
    expect(await session.count([event], 'together')).toMatchObject([
      { kind: 'counted', attempt: 2 },
    ])
  })
})
