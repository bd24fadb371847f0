import { expect, test } from 'vitest'
import { beginOpen, counted, fresh, newEvent, openInbox } from '../fixtures/inbox.ts'
import type { OwnerToken } from '../model/brands.ts'
import type { DeadLetterRef } from '../model/dead-letter.ts'
import { toErrorText } from './attempts.ts'
import { toDelivery } from './to-delivery.ts'

const error = new Error('no')

test('dead letters are listed by their first failure, events and refused messages together', async () => {
  const { clock, inbox, session } = await openInbox()
  const refuse = (key: string) => {
    const delivery = toDelivery(key, { messageId: key })
    return session.refuse([{ delivery, key, reason: 'invalid-payload', error }])
  }
  const bury = async () => {
    const event = newEvent()
    await session.bury([{ event, attempt: 1, error, reason: 'fatal' }])
    return event.key as string
  }
  const keys: string[] = []
  for (const step of ['refused', 'event', 'refused', 'event']) {
    if (step === 'event') keys.push(await bury())
    else {
      keys.push(`refused ${keys.length}`)
      await refuse(keys.at(-1) as string)
    }
    clock.advance(1_000)
  }
  expect(inbox.deadLetters().map(({ key }) => key)).toEqual(keys)
  const [first] = inbox.deadLetters()
  // Refused again: its first failure stays.
  await refuse(keys[0] as string)
  expect(inbox.deadLetters()[0]?.firstFailedAt).toEqual(first?.firstFailedAt)
  expect(inbox.deadLetters()[0]?.lastFailedAt).not.toEqual(first?.lastFailedAt)
})

test('replay answers false for what is no dead letter', async () => {
  const { inbox, session } = await openInbox()
  const [waiting, running] = [newEvent(), newEvent()]
  await session.fail([{ event: waiting, attempt: 1, error, delayMs: 1_000 }])
  await beginOpen(session, fresh(running))
  const refs: DeadLetterRef[] = [
    { kind: 'refused', id: 'unknown' },
    { kind: 'event', id: newEvent().id },
    { kind: 'event', id: waiting.id },
    { kind: 'event', id: running.id },
  ]
  expect(refs.map((ref) => inbox.replay(ref))).toEqual([false, false, false, false])
})

test('a dead letter that was published is to be published again once its replay has failed', async () => {
  const { inbox, session } = await openInbox()
  const event = newEvent()
  await session.bury([{ event, attempt: 1, error, reason: 'fatal' }])
  const dead: DeadLetterRef = { kind: 'event', id: event.id }
  const [refused] = (await session.refuse([
    { delivery: toDelivery('x'), key: 'x', reason: 'invalid-payload', error },
  ])) as [DeadLetterRef]
  for (const ref of [dead, refused]) {
    const right = await session.takePublishing(ref, 1_000)
    if (right.kind !== 'taken') throw new Error('no right')
    await session.endPublishing(ref, right.token, 'published')
    expect(await session.takePublishing(ref, 1_000)).toEqual({ kind: 'already' })
    expect(inbox.replay(ref)).toBe(true)
  }
  expect(await session.takePublishing(refused, 1_000)).toMatchObject({ kind: 'taken' })
})

test('the text of an error has its name, and no error has no text', () => {
  expect([toErrorText(new RangeError('no')), toErrorText('no')]).toEqual(['RangeError: no', 'no'])
  expect(toErrorText(undefined)).toBeUndefined()
})

test('a dead letter that is being published is listed once, and not replayed meanwhile', async () => {
  const { inbox, session } = await openInbox()
  const event = newEvent()
  await session.bury([{ event, attempt: 1, error, reason: 'fatal' }])
  const [refused] = await session.refuse([
    { delivery: toDelivery('x'), key: 'x', reason: 'invalid-payload', error },
  ])
  for (const ref of [{ kind: 'event', id: event.id }, refused] as DeadLetterRef[]) {
    expect(await session.takePublishing(ref, 1_000)).toMatchObject({ kind: 'taken' })
    expect(inbox.replay(ref)).toBe(false)
  }
  expect(inbox.deadLetters().map(({ key }) => key)).toEqual([event.key, 'x'])
  const unknown = { kind: 'refused', id: 'unknown' } as const
  expect(await session.takePublishing(unknown, 1_000)).toEqual({ kind: 'gone' })
})

test('a dead letter whose row a transaction has locked is neither published nor replayed', async () => {
  const { inbox, session } = await openInbox()
  const [dead, suspect] = [newEvent(), newEvent()]
  await session.bury([{ event: dead, attempt: 1, error, reason: 'fatal' }])
  const suspected = await session.suspect([suspect], 250)
  const [mine] = suspected.kind === 'answered' ? suspected.counted : []
  if (mine === undefined) throw new Error('not counted')
  // A claim of two events, of which one died meanwhile: it locks both rows.
  const stale = { event: dead, token: 'stale' as OwnerToken, attempt: 1 }
  const transaction = await beginOpen(session, counted(mine, stale))
  const ref: DeadLetterRef = { kind: 'event', id: dead.id }
  expect(await session.takePublishing(ref, 1_000)).toEqual({ kind: 'held' })
  expect(inbox.replay(ref)).toBe(false)
  await transaction.rollback()
  expect(await session.takePublishing(ref, 1_000)).toMatchObject({ kind: 'taken' })
})
