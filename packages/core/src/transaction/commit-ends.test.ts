import { expect, test } from 'vitest'
import { type Troubles, troubled } from '../fixtures/troubled.ts'
import { toDelivery } from '../memory/index.ts'
import { CommitUnknownError, ConfigurationError, StoreUnavailableError } from '../model/errors.ts'
import { portOf } from '../model/guard-port.ts'
import type { CommitAnswer, InboxTransaction } from '../model/inbox.ts'

const named = (name: string) => toDelivery(name, { messageId: name })
const suspect = (name: string) => ({ ...named(name), redelivered: true })
const coded = (code: string): Error => Object.assign(new Error(code), { code })

const processed = { kind: 'ack', by: 'processed' } as const
const unknown: CommitAnswer = { kind: 'unknown', error: new CommitUnknownError('no answer') }

/** Sets the answers of the first COMMITs. Without `arrives`, these COMMITs do not reach the server. */
function answering(
  answer: CommitAnswer,
  { arrives = false, times = 1 }: { readonly arrives?: boolean; readonly times?: number } = {},
): Troubles {
  const commitOf = (transaction: InboxTransaction<undefined>, n: number) => {
    const commit: typeof transaction.commit = async (work) => {
      if (n > times) return transaction.commit(work)
      await (arrives ? transaction.commit(work) : transaction.rollback())
      return answer
    }
    return { commit }
  }
  return { transaction: commitOf }
}

test.each([
  [coded('40001'), processed, 2],
  [new StoreUnavailableError('disk full'), { kind: 'defer', reason: 'store-down' }, 1],
  [coded('23514'), { kind: 'defer', reason: 'failed', error: { code: '23514' } }, 1],
])('a COMMIT that is answered with %s', async (error, settlement, transactions) => {
  const { asked, clock, guard } = troubled(
    () => undefined,
    answering({ kind: 'rolled-back', error }),
  )
  expect(await clock.until(guard.process(named('a')))).toMatchObject(settlement)
  expect(asked.begins).toHaveLength(transactions)
  await guard.close()
})

// Red before: the missing table was a failure of the event, and after the last attempt the event was dead-lettered.
test('a COMMIT that a missing table refuses counts no attempt, and health names the table', async () => {
  const error = new ConfigurationError('a table is missing')
  const { asked, guard } = troubled(() => undefined, answering({ kind: 'rolled-back', error }), {
    retry: { attempts: 1 },
  })
  await expect(guard.process(suspect('a'))).rejects.toBe(error)
  expect(asked.releases).toMatchObject([{ as: 'no-verdict' }])
  expect(portOf(guard).availability()).toMatchObject({ kind: 'down', error })
  await guard.close()
})

test('a failed COMMIT of several events is no verdict: the halves run again', async () => {
  const { asked, guard, records } = troubled(
    () => undefined,
    answering({ kind: 'rolled-back', error: coded('23514') }),
    { transaction: 'batch' },
  )
  const settlements = await guard.processBatch(['a', 'b', 'c'].map(named))
  expect(settlements).toEqual(Array(3).fill(processed))
  expect(asked.begins.map(({ claim }) => claim.kind !== 'none' && claim.events.length)).toEqual([
    3, 2, 1,
  ])
  expect(records.map(({ attempt }) => attempt)).toEqual([1, 1, 1])
  await guard.close()
})

test('an event that was committed but not replicated is redelivered', async () => {
  const error = new CommitUnknownError('not replicated')
  const { asked, guard } = troubled(
    () => undefined,
    answering({ kind: 'not-replicated', error }, { arrives: true }),
  )
  const abandoned = { kind: 'abandon', reason: 'commit-unknown', cause: 'not-replicated', error }
  expect(await guard.process(named('a'))).toEqual(abandoned)
  expect(asked.begins).toHaveLength(1)
  expect(await guard.process(named('a'))).toEqual({ kind: 'ack', by: 'duplicate' })
  await guard.close()
})

for (const [what, delivery] of [
  ['first delivery', named('a')],
  ['suspect', suspect('a')],
] as const) {
  test(`a COMMIT without an answer that arrived: the ${what} is processed, and ran once`, async () => {
    const attempts: number[] = []
    const { guard, records } = troubled(
      ({ attempt }) => {
        attempts.push(attempt)
        return { n: attempts.length }
      },
      answering(unknown, { arrives: true }),
    )
    expect(await guard.process(delivery)).toEqual({ ...processed, result: { n: 1 } })
    expect(attempts).toEqual([1])
    expect(records).toMatchObject([{ attempt: 1 }])
    await guard.close()
  })

  test(`a COMMIT without an answer that did not arrive: the ${what} runs once more`, async () => {
    const attempts: number[] = []
    const { guard } = troubled(({ attempt }) => void attempts.push(attempt), answering(unknown))
    expect(await guard.process(delivery)).toEqual(processed)
    expect(attempts).toEqual([1, 1])
    await guard.close()
  })

  test(`after two COMMITs without an answer the ${what} is redelivered`, async () => {
    const { asked, guard } = troubled(() => undefined, answering(unknown, { times: 2 }))
    const abandoned = {
      kind: 'abandon',
      reason: 'commit-unknown',
      cause: 'commit-unknown',
      error: unknown.error,
    }
    expect(await guard.process(delivery)).toEqual(abandoned)
    expect(asked.begins).toHaveLength(2)
    expect(await guard.process(delivery)).toEqual(processed)
    await guard.close()
  })
}

test('after a COMMIT without an answer and a store outage, the event is redelivered', async () => {
  const error = new StoreUnavailableError('down')
  let begins = 0
  const { guard } = troubled(() => undefined, {
    ...answering(unknown),
    session: (session) => ({
      begin: (request) => {
        begins += 1
        return begins === 2 ? Promise.reject(error) : session.begin(request)
      },
    }),
  })
  const abandoned = { kind: 'abandon', reason: 'commit-unknown', cause: 'commit-unknown', error }
  expect(await guard.process(named('a'))).toEqual(abandoned)
  await guard.close()
})

test('a run after a COMMIT without an answer is counted again if it starts too late', async () => {
  const attempts: number[] = []
  const troubles = answering(unknown)
  const { asked, clock, guard } = troubled(({ attempt }) => void attempts.push(attempt), {
    transaction: (transaction, n) => {
      if (n === 2) clock.advance(4_001)
      return troubles.transaction?.(transaction, n) ?? {}
    },
  })
  expect(await guard.process(suspect('a'))).toEqual(processed)
  expect(attempts).toEqual([1, 1])
  expect(asked.releases.map(({ as }) => as)).toEqual(['no-verdict', 'no-verdict'])
  await guard.close()
})
