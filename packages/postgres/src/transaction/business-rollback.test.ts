import { RetryableError, StoreUnavailableError } from '@onceward/core'
import { LATE } from '@onceward/core/adapter'
import type { OwnerToken } from '@onceward/core/ports'
import { newEvent } from '@onceward/testing/conformance'
import { describe, expect, test } from 'vitest'
import { type Given, scriptedTransaction } from '../fixtures/scripted-connection.ts'

const coded = (code: string): Error => Object.assign(new Error(code), { code })
const lost = new RetryableError('the lease was lost')

describe('a rollback', () => {
  test('gives the connection back, once', async () => {
    const { done, transaction } = scriptedTransaction()
    await transaction.rollback()
    await transaction.rollback()
    expect(done).toEqual(['revoke', 'rollback', 'release'])
  })

  test.each<[string, Given]>([
    ['is not answered', { answers: [LATE] }],
    ['fails', { answers: [new Error('Connection terminated')] }],
    ['has no connection', { status: 'broken' }],
  ])('that %s closes the connection', async (_what, given) => {
    const { done, transaction } = scriptedTransaction(given)
    await transaction.rollback()
    expect(done.at(-1)).toBe('destroy')
    expect(done.includes('rollback')).toBe(given.status !== 'broken')
  })

  test('after a revocation closes the connection', async () => {
    const { done, transaction } = scriptedTransaction()
    transaction.revoke(lost)
    await transaction.rollback()
    expect(done).toEqual(['revoke', 'revoke', 'rollback', 'destroy'])
  })

  test('waits a moment for a statement that ends by itself', async () => {
    const { clock, done, end, transaction } = scriptedTransaction({ isBusy: true })
    const rolling = transaction.rollback()
    await clock.advance(249)
    end()
    await rolling
    expect(done).toEqual(['revoke', 'rollback', 'release'])
  })

  // An open cursor of pg: every statement would wait behind it.
  test('of a connection that stays busy sends nothing, and closes it', async () => {
    const { clock, done, transaction } = scriptedTransaction({ isBusy: true, endsOnCancel: false })
    const rolling = transaction.rollback()
    await clock.advance(250)
    expect(done).toEqual(['revoke', 'cancel'])
    await clock.advance(250)
    await rolling
    expect(done).toEqual(['revoke', 'cancel', 'destroy'])
  })
})

describe('a failure is recorded', () => {
  const [first, second] = [newEvent(), newEvent()]
  const failures = [first, second].map((event) => ({
    ...{ event, token: 'mine' as OwnerToken, attempt: 1, error: new Error('no'), delayMs: 5 },
  }))
  const one = [first.id]

  test.each([true, false])('with the rollback, in one text if the client can: %s', async (at) => {
    const { asked, done, sent, transaction } = scriptedTransaction({
      ...{ answers: [one], sendsAtOnce: at },
    })
    expect(await transaction.rollbackAndFail(failures)).toEqual(['recorded', 'lost'])
    expect([sent[0]?.texts[0], sent[0]?.limitMs]).toEqual(['rollback', 5_000])
    expect(sent[0]?.texts[1]).toMatch(at ? /^set transaction/ : /^begin/)
    expect(sent.slice(1).map(({ texts }) => texts)).toEqual(at ? [] : [['commit']])
    expect([asked, done.at(-1)]).toEqual([[], 'release'])
  })

  test.each<[string, Given, string]>([
    ['lost a race', { answers: [coded('40001')] }, 'release'],
    ['waited for a row', { answers: [coded('55P03')] }, 'release'],
    ['lost its connection', { answers: [coded('57P01')] }, 'destroy'],
    ['has no connection', { status: 'broken' }, 'destroy'],
    ['speaks another encoding', { isUtf8: false }, 'release'],
  ])('on another connection where this one %s', async (_what, given, end) => {
    const kit = scriptedTransaction({ ...given, separately: [one] })
    expect(await kit.transaction.rollbackAndFail(failures)).toEqual(['recorded', 'lost'])
    expect(kit.asked).toHaveLength(1)
    expect(kit.done.at(-1)).toBe(end)
  })

  test('on another connection after a revocation', async () => {
    const kit = scriptedTransaction({ separately: [one] })
    kit.transaction.revoke(lost)
    expect(await kit.transaction.rollbackAndFail(failures)).toEqual(['recorded', 'lost'])
    expect(kit.done.at(-1)).toBe('destroy')
  })

  test('on another connection after an end', async () => {
    const kit = scriptedTransaction({ separately: [one] })
    await kit.transaction.rollback()
    expect(await kit.transaction.rollbackAndFail(failures)).toEqual(['recorded', 'lost'])
    expect(kit.done).toEqual(['revoke', 'rollback', 'release'])
  })

  test('on another connection where this one stays busy', async () => {
    const kit = scriptedTransaction({ isBusy: true, endsOnCancel: false, separately: [one] })
    const recording = kit.transaction.rollbackAndFail(failures)
    await kit.clock.advance(500)
    expect(await recording).toEqual(['recorded', 'lost'])
    expect(kit.done).toEqual(['revoke', 'cancel', 'destroy'])
  })

  // Not the commit too: it would wait behind the record.
  test.each<[string, Given, number]>([
    ['', { answers: [LATE] }, 1],
    [' to its record', { answers: [LATE], sendsAtOnce: false }, 1],
    [' to its commit', { answers: [one, LATE], sendsAtOnce: false }, 2],
  ])('never without an answer%s: that is an outage', async (_what, given, sends) => {
    const { asked, done, sent, transaction } = scriptedTransaction(given)
    await expect(transaction.rollbackAndFail(failures)).rejects.toThrow(StoreUnavailableError)
    expect([asked, sent.length, done.at(-1)]).toEqual([[], sends, 'destroy'])
  })

  test.each([
    ['53100', StoreUnavailableError, 'release'],
    ['23514', Error, 'release'],
    ['25006', StoreUnavailableError, 'destroy'],
  ])('or the error is typed: %s', async (code, type, end) => {
    const { asked, done, transaction } = scriptedTransaction({ answers: [coded(code)] })
    const recording = transaction.rollbackAndFail(failures)
    await expect(recording).rejects.toThrow(type)
    await expect(recording).rejects.toThrow(/recording a failure/)
    expect([asked, done.at(-1)]).toEqual([[], end])
  })
})

describe('a retraction', () => {
  const event = newEvent()

  test('takes back the rows of this transaction, and no others', async () => {
    const { asked, done, transaction } = scriptedTransaction()
    await transaction.retract([event])
    expect(asked).toMatchObject([{ by: 'durable', values: [`{${event.id}}`, '99'] }])
    expect(asked[0]?.text).toMatch(/xmin::text = \$2/)
    expect(done.at(-1)).toBe('release')
  })

  test.each<[string, Given, boolean]>([
    ['no rows', { over: { xid: undefined } }, true],
    ['no events', {}, false],
  ])('of a transaction with %s only rolls back', async (_what, given, hasEvent) => {
    const { asked, done, transaction } = scriptedTransaction(given)
    await transaction.retract(hasEvent ? [event] : [])
    expect([asked, done.at(-1)]).toEqual([[], 'release'])
  })
})
