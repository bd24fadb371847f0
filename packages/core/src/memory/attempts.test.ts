import { describe, expect, test } from 'vitest'
import {
  beginOpen,
  counted,
  fresh,
  kindOf,
  newEvent,
  nothing,
  openInbox,
} from '../fixtures/inbox.ts'
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
  test('is counted before its run and done afterwards', async () => {
    const { session } = await openInbox()
    const event = newEvent()
    const suspect = await suspectOne(session, event)
    expect(suspect.attempt).toBe(1)
    expect(await session.classify([event])).toMatchObject([{ kind: 'running', ageMs: 0 }])
    const transaction = await beginOpen(session, counted(suspect))
    await transaction.commit({ results: new Map(), recovered: [event.id] })
    expect(await kindOf(session, event)).toBe('done')
  })

  test('is not counted if it already has a row', async () => {
    const { session } = await openInbox()
    const event = newEvent()
    await (await beginOpen(session, fresh(event))).commit(nothing)
    expect(await session.suspect([event], 250)).toEqual({ kind: 'answered', counted: [undefined] })
  })

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

  test('is dead-lettered after its last attempt gave no verdict', async () => {
    const { session, clock } = await openInbox()
    const event = newEvent()
    await suspectOne(session, event)
    const attempts = []
    for (let round = 0; round < 3; round++) {
      clock.advance(5_000)
      attempts.push(...(await session.count([event], 'alone')))
    }
    expect(attempts).toMatchObject([
      { kind: 'counted', attempt: 2 },
      { kind: 'counted', attempt: 3 },
      { kind: 'buried', reason: 'attempts-spent', attempt: 3 },
    ])
    expect(await session.classify([event])).toMatchObject([{ kind: 'dead', published: false }])
  })
})

test('an event that another transaction is inserting is not to be counted', async () => {
  const { session } = await openInbox()
  const event = newEvent()
  await beginOpen(session, fresh(event))
  expect(await session.count([event], 'together')).toEqual([{ kind: 'changed' }])
})

describe('a verdict', () => {
  test('after the commit is lost, although the event keeps the record of its failures', async () => {
    const { session } = await openInbox()
    const event = newEvent()
    const suspect = await suspectOne(session, event)
    await (await beginOpen(session, counted(suspect))).commit(nothing)
    expect(await session.fail([{ ...suspect, error: new Error('late'), delayMs: 0 }])).toEqual([
      'lost',
    ])
    expect(await kindOf(session, event)).toBe('done')
  })

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

  test('of a clean run is lost if another transaction committed meanwhile', async () => {
    const { session } = await openInbox()
    const event = newEvent()
    await (await beginOpen(session, fresh(event))).commit(nothing)
    const verdict = { event, attempt: 1, error: new Error('late') }
    expect(await session.fail([{ ...verdict, delayMs: 0 }])).toEqual(['lost'])
    expect(await session.bury([{ ...verdict, reason: 'fatal' }])).toEqual(['lost'])
    expect(await kindOf(session, event)).toBe('done')
  })

  test('that releases the first attempt leaves no row', async () => {
    const { session } = await openInbox()
    const event = newEvent()
    const { token } = await suspectOne(session, event)
    expect(await session.release([{ event, token, as: 'given-back' }])).toEqual(['recorded'])
    expect(await kindOf(session, event)).toBe('absent')
    expect(await session.release([{ event, token, as: 'given-back' }])).toEqual(['lost'])
  })

  test('that is missing three times as often as the attempts allow dead-letters the event', async () => {
    const { session, clock } = await openInbox({ maxAttempts: 2 })
    const event = newEvent()
    let { token } = await suspectOne(session, event)
    for (let round = 0; round < 5; round++) {
      await session.release([{ event, token, as: 'no-verdict' }])
      expect(await session.classify([event])).toMatchObject([{ kind: 'waiting', alone: true }])
      const [answer] = await session.count([event], 'alone')
      if (answer?.kind !== 'counted') throw new Error(`round ${round}: ${answer?.kind}`)
      expect(answer.attempt).toBe(1)
      token = answer.token
    }
    await session.release([{ event, token, as: 'no-verdict' }])
    clock.advance(1)
    expect(await session.count([event], 'alone')).toMatchObject([
      { kind: 'buried', reason: 'no-verdict' },
    ])
  })
})
