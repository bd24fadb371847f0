import { describe, expect, test } from 'vitest'
import {
  beginOpen,
  fresh,
  kindOf,
  newEvent,
  nothing,
  openInbox,
  registration,
} from '../fixtures/inbox.ts'
import type { DeadLetterRef } from '../model/dead-letter.ts'
import type { IdentifiedEvent, InboxSession } from '../model/inbox.ts'
import { toDelivery } from './to-delivery.ts'

async function burySomething(session: InboxSession<undefined>): Promise<IdentifiedEvent> {
  const event = newEvent()
  const [answer] = await session.bury([
    { event, attempt: 1, error: new Error('no'), reason: 'fatal' },
  ])
  expect(answer).toBe('recorded')
  return event
}

async function published(session: InboxSession<undefined>, ref: DeadLetterRef): Promise<void> {
  const right = await session.takePublishing(ref, 1_000)
  if (right.kind !== 'taken') throw new Error(`expected the right to publish, got ${right.kind}`)
  expect(await session.endPublishing(ref, right.token, 'published')).toBe('recorded')
}

describe('a dead letter', () => {
  test('is listed with its reason', async () => {
    const { session, inbox } = await openInbox()
    const event = await burySomething(session)
    expect(inbox.deadLetters()).toMatchObject([
      {
        ref: { kind: 'event', id: event.id },
        ...{ consumer: 'billing', reason: 'fatal', error: 'Error: no', attempts: 1 },
      },
    ])
  })

  test('that is replayed is parked, due and alone, and published again if it fails again', async () => {
    const { session, inbox, clock } = await openInbox()
    const event = await burySomething(session)
    const ref = { kind: 'event', id: event.id } as const
    await published(session, ref)
    expect(inbox.replay(ref)).toBe(true)
    expect(await session.due(10)).toMatchObject([
      { ref, what: 'run', delivery: event.delivery, identity: { id: event.id, key: event.key } },
    ])
    expect(await session.classify([event])).toMatchObject([{ alone: true, attempt: 0 }])
    expect(await session.count([event], 'together')).toEqual([{ kind: 'changed' }])
    const [answer] = await session.count([event], 'alone')
    if (answer?.kind !== 'counted') throw new Error('not counted')
    expect(await session.due(10)).toEqual([])
    clock.advance(5_000)
    expect(await session.due(10)).toMatchObject([{ what: 'run' }])
    const { token, attempt } = answer
    await session.bury([{ event, token, attempt, error: undefined, reason: 'fatal' }])
    expect(await session.due(10)).toMatchObject([{ ref, what: 'publish' }])
  })

  test('of a refused message is stored once however often the message comes, and deleted when resolved', async () => {
    const { session, inbox } = await openInbox()
    const delivery = toDelivery({ no: 'key' }, { headers: {} })
    const refusal = { delivery, reason: 'missing-event-key' as const, error: new Error('no key') }
    const [ref] = await session.refuse([refusal])
    expect(await session.refuse([refusal])).toEqual([ref])
    if (ref?.kind !== 'refused') throw new Error('no ref')
    await published(session, ref)
    await session.refuse([refusal])
    expect(await session.takePublishing(ref, 1_000)).toEqual({ kind: 'already' })
    expect(inbox.replay(ref)).toBe(true)
    expect(await session.due(10)).toEqual([{ ref, what: 'run', delivery }])
    await session.resolveRefused(ref.id)
    expect(inbox.deadLetters()).toEqual([])
  })
})

test('due and sweep return only rows of their own consumer', async () => {
  const { session, inbox, clock } = await openInbox()
  const other = await inbox.open(registration({ consumer: 'shipping', runtime: clock.runtime }))
  const buried = await burySomething(session)
  inbox.replay({ kind: 'event', id: buried.id })
  const event = newEvent()
  await (await beginOpen(session, fresh(event))).commit(nothing)
  clock.advance(60_001)
  expect(await other.due(10)).toEqual([])
  expect(await other.sweep()).toEqual({ deleted: 0, finished: true })
  expect(await session.sweep()).toEqual({ deleted: 1, finished: true })
  expect(await kindOf(session, event)).toBe('absent')
  expect(await kindOf(session, buried)).toBe('waiting')
})
