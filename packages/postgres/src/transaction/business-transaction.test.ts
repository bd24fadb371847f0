import {
  CommitUnknownError,
  ConfigurationError,
  DeadlineExceededError,
  RetryableError,
  StoreUnavailableError,
} from '@onceward/core'
import { LATE } from '@onceward/core/adapter'
import { describe, expect, test } from 'vitest'
import { scriptedTransaction } from '../fixtures/scripted-connection.ts'

const coded = (code: string): Error => Object.assign(new Error(code), { code })
const NOTHING = { results: new Map(), recovered: [] }
const lost = new RetryableError('the lease was lost')

describe('a commit', () => {
  test('is sent once and awaited, and the connection goes back', async () => {
    const { done, refusals, sent, transaction } = scriptedTransaction()
    expect([transaction.tx, transaction.status()]).toEqual(['the handle', 'open'])
    expect(await transaction.commit(NOTHING)).toEqual({ kind: 'committed' })
    expect(done).toEqual(['close', 'set local', 'release'])
    expect(sent).toEqual([
      { texts: [expect.any(String), 'commit'], limitMs: 4_000, reads: 'no-rows' },
    ])
    expect(refusals).toEqual([expect.any(RetryableError)])
    expect(String(refusals[0])).toContain('is over')
    await transaction.rollback()
    expect(done).toHaveLength(3)
  })

  test('restores what the handler may have changed', async () => {
    const { sent, transaction } = scriptedTransaction({ hasChangedSettings: true })
    expect(transaction.hasChangedSettings()).toBe(true)
    await transaction.commit(NOTHING)
    expect(sent[0]?.texts).toContain('set constraints all immediate')
  })

  test('of a session in another encoding goes after a text that sets it', async () => {
    const { sent, transaction } = scriptedTransaction({ isUtf8: false })
    expect(await transaction.commit(NOTHING)).toEqual({ kind: 'committed' })
    expect(sent.map(({ texts }) => texts.at(-1))).toEqual([
      "set local client_encoding = 'UTF8'",
      'commit',
    ])
  })

  test('is not sent where that text is not answered', async () => {
    const { done, sent, transaction } = scriptedTransaction({ isUtf8: false, answers: [LATE] })
    expect(await transaction.commit(NOTHING)).toMatchObject({ kind: 'unknown' })
    expect([sent.length, done.at(-1)]).toEqual([1, 'destroy'])
  })

  test('without an answer is unknown, and the connection is closed', async () => {
    const { done, transaction } = scriptedTransaction({ answers: [LATE] })
    expect(await transaction.commit(NOTHING)).toMatchObject({
      kind: 'unknown',
      error: expect.any(CommitUnknownError),
    })
    expect(done.slice(1)).toEqual(['set local', 'destroy'])
  })

  test('that the server answers with ROLLBACK had a failed statement', async () => {
    const { done, transaction } = scriptedTransaction({ answers: ['ROLLBACK'] })
    expect(await transaction.commit(NOTHING)).toMatchObject({
      kind: 'rolled-back',
      error: expect.any(RetryableError),
    })
    expect(done.at(-1)).toBe('release')
  })

  test('that is on this server alone is told apart', async () => {
    const { done, transaction } = scriptedTransaction({ isUnreplicated: true })
    expect(await transaction.commit(NOTHING)).toMatchObject({
      kind: 'not-replicated',
      error: expect.any(CommitUnknownError),
    })
    expect(done.at(-1)).toBe('release')
  })
})

describe('a commit is not sent', () => {
  test.each([
    ['failed', undefined, RetryableError, 'statement', 'release'],
    ['ended', undefined, RetryableError, 'ended the transaction', 'release'],
    ['broken', undefined, StoreUnavailableError, 'lost before the commit', 'destroy'],
    ['broken', '25P04', DeadlineExceededError, 'timeout', 'destroy'],
  ] as const)('where the transaction is %s (%s)', async (status, endCode, type, message, end) => {
    const { done, sent, transaction } = scriptedTransaction({ status, endCode })
    const answer = await transaction.commit(NOTHING)
    expect(answer).toMatchObject({ kind: 'rolled-back', error: expect.any(type) })
    expect(answer).toHaveProperty('error.message', expect.stringContaining(message))
    expect(sent.map(({ texts }) => texts)).toEqual(status === 'broken' ? [] : [['rollback']])
    expect(done.at(-1)).toBe(end)
  })

  test('after a revocation, whose connection is closed', async () => {
    const { done, transaction } = scriptedTransaction()
    transaction.revoke(lost)
    transaction.revoke(new RetryableError('later'))
    expect(await transaction.commit(NOTHING)).toEqual({ kind: 'rolled-back', error: lost })
    expect(done.at(-1)).toBe('destroy')
  })
})

describe('a commit that fails', () => {
  test.each<[string, number, Error, unknown]>([
    ['of the handler', 0, coded('23514'), coded('23514')],
    ['of a deferred trigger', 1, coded('42501'), coded('42501')],
    ['of onceward', 3, coded('42501'), expect.any(ConfigurationError)],
    ['of onceward that blames the event', 3, coded('23514'), coded('23514')],
    ['at its end', 9, coded('42501'), coded('42501')],
  ])('in a statement %s was rolled back', async (_what, completed, error, expected) => {
    const answers = [error, 'ROLLBACK']
    const given = { answers, completed, hasChangedSettings: true }
    const { done, sent, transaction } = scriptedTransaction(given)
    expect(await transaction.commit(NOTHING)).toEqual({ kind: 'rolled-back', error: expected })
    expect(sent.at(-1)).toEqual({ texts: ['rollback'], limitMs: 5_000, reads: 'no-rows' })
    expect(done.at(-1)).toBe('release')
  })

  // Red when the error is the answer: a backend that is shut down may report one after it has committed.
  test.each<[string, readonly (Error | typeof LATE)[], number]>([
    ['with its connection', [new Error('Connection terminated')], 1],
    ['and cannot roll back', [coded('57P01'), new Error('Connection terminated')], 2],
    ['and is silent', [coded('57P01'), LATE], 2],
  ])('%s is unknown', async (_what, answers, sends) => {
    const { done, sent, transaction } = scriptedTransaction({ answers })
    expect(await transaction.commit(NOTHING)).toMatchObject({
      kind: 'unknown',
      error: { cause: answers[0] },
    })
    expect([sent.length, done.at(-1)]).toEqual([sends, 'destroy'])
  })
})

describe('a handler that has not awaited its statements', () => {
  test('commits what ends in time', async () => {
    const { end, transaction } = scriptedTransaction({ isBusy: true })
    const committing = transaction.commit(NOTHING)
    end()
    expect(await committing).toEqual({ kind: 'committed' })
  })

  test.each([
    [30_000, 10_000],
    [3_000, 3_000],
  ])('of %d ms is rolled back after %d ms', async (budgetMs, waitedMs) => {
    const kit = scriptedTransaction({ isBusy: true, over: { budgetMs } })
    let answer: unknown
    const committing = kit.transaction.commit(NOTHING).then((given) => {
      answer = given
    })
    await kit.clock.advance(waitedMs - 1)
    expect(kit.done).toEqual(['close'])
    await kit.clock.advance(1 + 250)
    await committing
    expect(answer).toMatchObject({
      kind: 'rolled-back',
      error: { message: expect.stringContaining('still running') },
    })
    expect(kit.done).toEqual(['close', 'revoke', 'cancel', 'rollback', 'release'])
  })

  test('is not waited for after a revocation, which cancels them once', async () => {
    const kit = scriptedTransaction({ isBusy: true, endsOnCancel: false })
    kit.transaction.revoke(lost)
    kit.transaction.revoke(lost)
    expect(kit.done.filter((each) => each === 'cancel')).toHaveLength(1)
    const committing = kit.transaction.commit(NOTHING)
    // The wait after a cancel, twice. Statements that belong to the effect have a longer time.
    await kit.clock.advance(500)
    expect(await committing).toEqual({ kind: 'rolled-back', error: lost })
  })
})

test('a transaction is out of time by the error of the server, or of the handler', () => {
  expect(scriptedTransaction().transaction.outOfTime(coded('23514'))).toBeUndefined()
  const late = scriptedTransaction({ endCode: '25P03' }).transaction.outOfTime()
  expect(late).toBeInstanceOf(DeadlineExceededError)
  const told = scriptedTransaction().transaction.outOfTime(coded('25P04'))
  expect(told).toBeInstanceOf(DeadlineExceededError)
})

test('once COMMIT is sent only the server decides', async () => {
  const { done, state, transaction } = scriptedTransaction()
  const committing = transaction.commit(NOTHING)
  state.isBusy = true
  transaction.revoke(lost)
  expect(await committing).toEqual({ kind: 'committed' })
  expect(done).not.toContain('cancel')
})
