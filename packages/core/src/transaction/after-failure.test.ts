import { expect, test } from 'vitest'
import { troubled } from '../fixtures/troubled.ts'
import { toDelivery } from '../memory/index.ts'
import { CommitUnknownError, StoreUnavailableError } from '../model/errors.ts'
import { portOf } from '../model/guard-port.ts'

const named = (name: string) => toDelivery(name, { messageId: name })
const suspect = (name: string) => ({ ...named(name), redelivered: true })

test.each([
  ['broken', 'no-verdict', 'available', ['warn']],
  ['failed', 'given-back', 'down', []],
] as const)(
  'with a transaction that is %s, a run is %s, and the store is %s',
  async (status, as, kind, levels) => {
    const error = new StoreUnavailableError('it failed')
    const { asked, guard, logged } = troubled(
      () => {
        throw error
      },
      { transaction: () => ({ status: () => status }) },
    )
    expect(await guard.process(suspect('a'))).toMatchObject({
      kind: 'defer',
      reason: 'store-down',
      error: { code: 'ONCEWARD_STORE_UNAVAILABLE', cause: error },
    })
    expect(asked.releases).toMatchObject([{ as }])
    expect(portOf(guard).availability()).toMatchObject({ kind })
    const { message } = error
    expect(logged).toMatchObject(levels.map((level) => ({ level, fields: { err: { message } } })))
    await guard.close()
  },
)

test.each([
  ['processed', {}, 'available'],
  ['failed', { error: new TypeError('a bug') }, 'available'],
  ['a full disk', { status: 'failed', error: new StoreUnavailableError('disk full') }, 'down'],
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
