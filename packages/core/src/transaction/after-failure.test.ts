import { expect, test } from 'vitest'
import { troubled } from '../fixtures/troubled.ts'
import { toDelivery } from '../memory/index.ts'
import { CommitUnknownError, StoreUnavailableError } from '../model/errors.ts'
import { portOf } from '../model/guard-port.ts'

const named = (name: string) => toDelivery(name, { messageId: name })
const suspect = (name: string) => ({ ...named(name), redelivered: true })

test('a run whose connection was lost has no verdict, and the store stays available', async () => {
  const error = new StoreUnavailableError('it failed')
  const { asked, guard, logged } = troubled(
    () => {
      throw error
    },
    { transaction: () => ({ status: () => 'broken' }) },
  )
  expect(await guard.process(suspect('a'))).toMatchObject({
    kind: 'defer',
    reason: 'store-down',
    error: { code: 'ONCEWARD_STORE_UNAVAILABLE', cause: error },
  })
  expect(asked.releases).toMatchObject([{ as: 'no-verdict' }])
  expect(portOf(guard).availability()).toMatchObject({ kind: 'available' })
  expect(logged).toMatchObject([{ level: 'warn', fields: { err: { message: 'it failed' } } }])
  await guard.close()
})

test.each([
  ['the store is down', new StoreUnavailableError('disk full'), [{ as: 'no-verdict' }], 'down'],
  // A run that is given back would never be counted.
  ['its statement is refused', new Error('out of range'), [], 'available'],
] as const)('a verdict that cannot be recorded, because %s', async (_, error, releases, kind) => {
  const { asked, guard } = troubled(
    () => {
      throw new Error('the disk is full')
    },
    {
      transaction: () => ({
        status: () => 'failed',
        rollbackAndFail: () => Promise.reject(error),
      }),
    },
  )
  expect(await guard.process(suspect('a'))).toMatchObject({ kind: 'defer', reason: 'store-down' })
  expect(asked.releases).toMatchObject(releases)
  expect(portOf(guard).availability()).toMatchObject({ kind })
  await guard.close()
})

test.each([
  ['processed', {}, 'available'],
  ['failed', { error: new TypeError('a bug') }, 'available'],
  ['a failed statement', { status: 'failed', error: new StoreUnavailableError('it') }, 'available'],
  ['a lost connection', { status: 'broken' }, 'down'],
  ['a commit without an answer', { isUnanswered: true }, 'down'],
] as const)('the run that tries a store that was down ends as %s', async (_, end, kind) => {
  const { error, status, isUnanswered } = {
    error: undefined,
    status: 'open',
    isUnanswered: false,
    ...end,
  } as const
  const unknown = { kind: 'unknown', error: new CommitUnknownError('no answer') } as const
  let begins = 0
  const { clock, guard } = troubled(
    () => {
      if (error !== undefined) throw error
    },
    {
      session: (session) => ({
        begin: (request) => {
          begins += 1
          return begins === 1
            ? Promise.reject(new StoreUnavailableError('down'))
            : session.begin(request)
        },
      }),
      transaction: (transaction) => ({
        status: () => status,
        commit: async (work) => {
          if (!isUnanswered) return transaction.commit(work)
          await transaction.rollback()
          return unknown
        },
      }),
    },
  )
  await guard.process(named('a'))
  expect(portOf(guard).availability()).toMatchObject({ kind: 'down' })
  clock.advance(750)
  await guard.process(named('b'))
  expect(portOf(guard).availability()).toMatchObject({ kind })
  await guard.close()
})

// Red when the missing transaction is asked for its rollback: the run of an outage counted as an attempt.
test('an outage after the last serialization failure has no verdict', async () => {
  const error = new StoreUnavailableError('down')
  const { asked, clock, guard, logged } = troubled(
    () => {
      throw new Error('could not serialize access')
    },
    {
      session: () => ({ diagnose: () => 'serialization', fail: () => Promise.reject(error) }),
      transaction: () => ({ status: () => 'failed' }),
    },
  )
  expect(await clock.until(guard.process(suspect('a')))).toMatchObject({
    kind: 'defer',
    reason: 'store-down',
    error,
  })
  expect(asked.begins).toHaveLength(6)
  expect(asked.releases).toMatchObject([{ as: 'no-verdict' }])
  expect(logged.filter(({ level }) => level === 'error')).toEqual([])
  await guard.close()
})

test('a run that cannot be released now is logged with the number of such runs', async () => {
  const down = new StoreUnavailableError('down')
  const { guard, logged } = troubled(
    () => {
      throw new Error('not now')
    },
    {
      session: () => ({ release: () => Promise.reject(down) }),
      transaction: () => ({ rollbackAndFail: () => Promise.reject(down) }),
    },
  )
  await guard.process(suspect('a'))
  expect(logged).toContainEqual({
    level: 'warn',
    fields: { err: expect.objectContaining({ message: 'down' }), runs: 1 },
  })
  await guard.close()
})
