import { describe, expect, test } from 'vitest'
import {
  beginOpen,
  fresh,
  kindOf,
  newEvent,
  noop,
  nothing,
  openInbox,
  registration,
  silent,
  WAITS,
} from '../fixtures/inbox.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import { memoryInbox } from './index.ts'

describe('a business transaction', () => {
  test('shows its row only after the commit', async () => {
    const { session } = await openInbox()
    const event = newEvent()
    const transaction = await beginOpen(session, fresh(event))
    expect(await kindOf(session, event)).toBe('absent')
    const results = new Map([[event.id, '{"total":3}']])
    expect(await transaction.commit({ results, recovered: [] })).toEqual({ kind: 'committed' })
    expect(await session.classify([event])).toEqual([
      { kind: 'done', fingerprint: event.fingerprint, ageMs: 0, result: { total: 3 } },
    ])
    expect(await session.begin(fresh(event))).toMatchObject({ kind: 'none' })
  })

  test('leaves nothing after a rollback', async () => {
    const { session } = await openInbox()
    const event = newEvent()
    await (await beginOpen(session, fresh(event))).rollback()
    expect(await kindOf(session, event)).toBe('absent')
    expect((await session.begin(fresh(event))).kind).toBe('open')
  })

  test('claims the new events of a batch and skips done events', async () => {
    const { session } = await openInbox()
    const [old, next] = [newEvent(), newEvent()]
    await (await beginOpen(session, fresh(old))).commit(nothing)
    expect(await session.begin(fresh(old))).toMatchObject({
      kind: 'none',
      done: [{ kind: 'done', fingerprint: old.fingerprint }],
    })
    const begun = await session.begin(fresh(old, next))
    expect(begun).toMatchObject({ kind: 'open', claimed: new Set([next.id]) })
  })

  test('commits nothing after it was revoked', async () => {
    const { session } = await openInbox()
    const event = newEvent()
    const transaction = await beginOpen(session, fresh(event))
    const error = new StoreUnavailableError('revoked')
    transaction.revoke(error)
    expect(await transaction.commit(nothing)).toEqual({ kind: 'rolled-back', error })
    expect(await kindOf(session, event)).toBe('absent')
  })

  test('without a claim is open and holds no row', async () => {
    const { session } = await openInbox()
    const begun = await session.begin({ claim: { kind: 'none' }, ...WAITS })
    expect(begun).toMatchObject({ kind: 'open', claimed: new Set() })
  })

  test('passes the given tx to the handler', async () => {
    const tx = { query: noop }
    const session = await memoryInbox(tx).open(registration())
    expect(await session.begin({ claim: { kind: 'none' }, ...WAITS })).toMatchObject({
      transaction: { tx },
    })
  })
})

describe('a row held by another open transaction', () => {
  test('makes a claim wait until the row is released', async () => {
    const { session, clock } = await openInbox()
    const event = newEvent()
    const first = await beginOpen(session, fresh(event))
    const second = session.begin(fresh(event))
    const waiting = clock.timers
    await first.rollback()
    expect((await second).kind).toBe('open')
    expect(waiting).toBe(1)
    expect(clock.timers).toBe(0)
  })

  test('gives no claim if its holder commits', async () => {
    const { session } = await openInbox()
    const event = newEvent()
    const first = await beginOpen(session, fresh(event))
    const second = session.begin(fresh(event))
    await first.commit(nothing)
    expect(await second).toMatchObject({ kind: 'none' })
  })

  test('answers held after the wait, and no row stays claimed', async () => {
    const { session, clock } = await openInbox()
    const [free, held] = [newEvent(), newEvent()]
    const first = await beginOpen(session, fresh(held))
    const second = session.begin(fresh(free, held))
    await Promise.resolve()
    clock.advance(250)
    expect(await second).toEqual({ kind: 'held' })
    expect((await session.begin(fresh(free))).kind).toBe('open')
    await first.rollback()
  })

  test('makes the count of suspects wait too', async () => {
    const { session, clock } = await openInbox()
    const event = newEvent()
    await beginOpen(session, fresh(event))
    const suspected = session.suspect([event], 250)
    await Promise.resolve()
    clock.advance(250)
    expect(await suspected).toEqual({ kind: 'held' })
  })
})

test('a guard with another fingerprint rule gets a warning', async () => {
  const inbox = memoryInbox()
  const warned: object[] = []
  const logger = { ...silent, warn: (fields: object) => warned.push(fields) }
  for (const _ of ['first', 'second']) await inbox.open(registration({ logger }))
  await inbox.open(registration({ fingerprintRule: 2, logger }))
  expect(warned).toEqual([{ consumer: 'billing', registered: 1, fingerprintRule: 2 }])
})

test('SQLSTATEs and store errors are diagnosed, other errors are not', async () => {
  const { session } = await openInbox()
  const withCode = (code: string) => Object.assign(new Error(code), { code })
  const errors = [
    withCode('40P01'),
    withCode('40001'),
    withCode('23505'),
    new StoreUnavailableError(''),
  ]
  expect([...errors, undefined].map((error) => session.diagnose(error))).toEqual([
    'serialization',
    'serialization',
    'other',
    'store',
    'other',
  ])
})

test('all guards of an inbox learn one identity, which no other inbox has', async () => {
  const { inbox, session } = await openInbox()
  const other = await inbox.open(registration({ consumer: 'shipping' }))
  const identity = await session.identity()
  expect(identity).toMatch(/^[0-9a-f]{32}$/)
  expect(await other.identity()).toBe(identity)
  expect(await (await openInbox()).session.identity()).not.toBe(identity)
})
