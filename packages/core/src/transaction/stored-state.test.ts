import { expect, test } from 'vitest'
import { troubled } from '../fixtures/troubled.ts'
import { toDelivery } from '../memory/index.ts'
import type { DeadLetter, Publish } from '../model/dead-letter.ts'
import { CommitUnknownError, FatalError } from '../model/errors.ts'
import { portOf } from '../model/guard-port.ts'
import { conflictOutcome } from './stored-state.ts'

const named = (name: string) => toDelivery(name, { messageId: name })
const suspect = (name: string) => ({ ...named(name), redelivered: true })
const processed = { kind: 'ack', by: 'processed' } as const

// The deferral lasts at least the rest of the five seconds.
test.each([
  [
    0,
    { kind: 'defer', reason: 'in-progress', until: 1_000_000 + 5_000, cause: 'running-elsewhere' },
  ],
  [
    4_000,
    { kind: 'defer', reason: 'in-progress', until: 1_004_000 + 1_000, cause: 'running-elsewhere' },
  ],
  [
    4_999,
    { kind: 'defer', reason: 'in-progress', until: 1_004_999 + 1_000, cause: 'running-elsewhere' },
  ],
  [5_000, processed],
])('an event started %i ms ago without a verdict is settled as %j', async (ageMs, settlement) => {
  const { clock, crash, guard } = troubled(() => undefined)
  await crash(named('a'))
  clock.advance(ageMs)
  expect(await guard.process(suspect('a'))).toEqual(settlement)
  await guard.close()
})

test('a waiting event runs when it is due, not a millisecond before', async () => {
  let isReady = false
  const { clock, guard, records } = troubled(() => {
    if (!isReady) throw new Error('not yet')
  })
  await guard.process(named('a'))
  isReady = true
  // Three quarters of a second.
  clock.advance(749)
  const notDue = { kind: 'defer', reason: 'not-due', until: 1_000_750, cause: 'not-due' }
  expect(await guard.process(named('a'))).toEqual(notDue)
  clock.advance(1)
  expect(await guard.process(named('a'))).toEqual(processed)
  expect(records.at(-1)).toMatchObject({ attempt: 2 })
  await guard.close()
})

test('due events run together, an event without a verdict runs alone', async () => {
  let isReady = false
  const { asked, clock, guard } = troubled(
    ({ payload }) => {
      if (isReady) return
      if (payload === 'b') throw new Error('not yet')
    },
    {
      transaction: (transaction, n) => ({
        status: () => (n === 1 ? 'broken' : transaction.status()),
      }),
    },
    { transaction: 'batch' },
  )
  // Its connection is lost, so there is no verdict, and the event is due at once.
  await guard.process(suspect('a'))
  await guard.process(named('b'))
  isReady = true
  clock.advance(1_000)
  const before = asked.begins.length
  const settlements = await guard.processBatch(['a', 'b'].map(suspect))
  expect(settlements).toEqual([processed, processed])
  expect(asked.begins).toHaveLength(before + 2)
  await guard.close()
})

test('a dead-lettered event stays dead-lettered with its attempts and its record', async () => {
  const { guard, inbox, records } = troubled(() => {
    throw new FatalError('no such order')
  })
  const dead = { kind: 'dead-letter', reason: 'fatal' }
  expect(await guard.process(named('a'))).toMatchObject(dead)
  const again = await guard.process(named('a'))
  expect(again).toEqual(dead)
  const published: DeadLetter[] = []
  const publish: Publish = async (letter) => void published.push(letter)
  expect(await portOf(guard).publishDeadLetter(again, publish)).toEqual({ kind: 'published' })
  expect(published).toMatchObject([{ ref: { kind: 'event' }, reason: 'fatal' }])
  expect(records.map(({ attempt }) => attempt)).toEqual([1, 1])
  expect(inbox.deadLetters()).toHaveLength(1)
  await guard.close()
})

test.each([
  ['ack', { kind: 'ack', by: 'conflict' }],
  ['dead-letter', { kind: 'dead-letter', reason: 'fingerprint-mismatch' }],
] as const)('a conflict under the policy %s is settled as %j', async (onConflict, settlement) => {
  const { guard, inbox } = troubled(() => undefined, {}, { onConflict })
  await guard.process(toDelivery({ cents: 5 }, { messageId: 'm' }))
  const other = toDelivery({ cents: 6 }, { messageId: 'm' })
  expect(await guard.process(other)).toMatchObject(settlement)
  const letters = onConflict === 'ack' ? [] : [{ ref: { kind: 'refused' }, key: 'm' }]
  expect(inbox.deadLetters()).toMatchObject(letters)
  await guard.close()
})

test.each([
  ['dead-letter', 'the message is kept in refused_messages'],
  ['ack', 'the message is kept nowhere'],
  ['throw', 'the message is kept nowhere'],
] as const)('the error of a conflict under the policy %s says: %s', async (onConflict, kept) => {
  const session = { refuse: async () => [{ kind: 'refused', id: 'm' }] }
  const event = { delivery: toDelivery({}), key: 'm' }
  const outcome = await conflictOutcome(
    { options: { onConflict }, session } as never,
    { event } as never,
  )
  expect(outcome).toMatchObject({ error: { message: expect.stringContaining(kept) } })
})

test('a conflict under the policy throw is thrown to the caller', async () => {
  const { guard } = troubled(() => undefined, {}, { onConflict: 'throw' })
  await guard.process(toDelivery({ cents: 5 }, { messageId: 'm' }))
  const other = guard.process(toDelivery({ cents: 6 }, { messageId: 'm' }))
  await expect(other).rejects.toMatchObject({ code: 'ONCEWARD_CONFLICT' })
  await guard.close()
})

test.each([
  ['gone', async () => [{ kind: 'absent' } as const]],
  ['not told', async () => []],
])('a row that is %s when it is read is deferred', async (_, classify) => {
  const { guard } = troubled(() => undefined, {
    session: () => ({ begin: async () => ({ kind: 'none' }), classify }),
  })
  const settlement = {
    kind: 'defer',
    reason: 'in-progress',
    until: 1_001_000,
    cause: 'running-elsewhere',
  }
  expect(await guard.process(named('a'))).toEqual(settlement)
  await guard.close()
})

test('an attempt whose commit got no answer keeps its number if the event turns out to be done', async () => {
  const error = new CommitUnknownError('no answer')
  let runs = 0
  const { clock, guard, records } = troubled(
    () => {
      runs += 1
      if (runs === 1) throw new Error('not yet')
    },
    {
      transaction: (transaction) => ({
        commit: async (work) => {
          await transaction.commit(work)
          return { kind: 'unknown', error }
        },
      }),
    },
  )
  await guard.process(named('a'))
  clock.advance(750)
  expect(await guard.process(named('a'))).toEqual(processed)
  expect(records.map(({ attempt }) => attempt)).toEqual([1, 2])
  await guard.close()
})

test('a missing row after a COMMIT without an answer means that nothing was committed', async () => {
  let begins = 0
  const { guard } = troubled(() => undefined, {
    session: (session) => ({
      begin: async (request) => {
        begins += 1
        return begins === 2 ? { kind: 'none' } : session.begin(request)
      },
    }),
    transaction: (transaction, n) => ({
      commit: async (work) => {
        if (n > 1) return transaction.commit(work)
        await transaction.rollback()
        return { kind: 'unknown', error: new CommitUnknownError('no answer') }
      },
    }),
  })
  expect(await guard.process(named('a'))).toEqual(processed)
  expect(begins).toBe(3)
  await guard.close()
})
