import { DeadlineExceededError, LeaseLostError, RetryableError } from '@onceward/core'
import { describe, expect, it, test } from 'vitest'
import { HandleGate } from './refusing-handle.ts'
import { timeLimitError } from './time-limits.ts'

const [over, lost] = [new LeaseLostError('over'), new LeaseLostError('lost')]

describe('the handle of a handler', () => {
  it('runs every statement but transaction control, which it names', () => {
    const gate = new HandleGate()
    expect([gate.refusal('select 1'), gate.refusal(undefined), gate.revoked]).toEqual(
      Array.from({ length: 3 }),
    )
    expect(gate.refusal('commit work and chain')).toBeInstanceOf(RetryableError)
    expect(String(gate.refusal('commit work and chain'))).toContain('may not send `commit work`:')
  })

  it('refuses everything once it is closed, with the first reason, which is made when it is needed', () => {
    const gate = new HandleGate()
    let made = 0
    gate.close(() => {
      made += 1
      return over
    })
    gate.close(() => lost)
    expect(made).toBe(0)
    expect([gate.refusal('select 1'), gate.refusal(undefined), gate.refusal('commit')]).toEqual([
      ...[over, over, over],
    ])
    // Queued statements still run.
    expect(gate.revoked).toBeUndefined()
  })

  it('starts nothing once it is revoked, and the first error stays', () => {
    const gate = new HandleGate()
    gate.close(() => over)
    gate.revoke(lost)
    gate.revoke(over)
    expect([gate.revoked, gate.refusal('select 1')]).toEqual([lost, lost])
  })

  it.each<[string | undefined, boolean]>([
    ['select 1', false],
    ['set local role app', true],
    [undefined, true],
  ])('remembers what may have changed a setting: %s', (text, hasChanged) => {
    const gate = new HandleGate()
    expect(gate.hasChangedSettings).toBe(false)
    gate.sent(text)
    gate.sent('select 2')
    expect(gate.hasChangedSettings).toBe(hasChanged)
  })
})

test.each([
  ['25P03', '`idle_in_transaction_session_timeout`, because'],
  ['25P04', '`transaction_timeout`, and'],
])(
  'a transaction that the server ends for its length has failed, and the setting is named: %s',
  (state, setting) => {
    const cause = new Error('terminating connection')
    const error = timeLimitError(state, cause)
    expect(error).toBeInstanceOf(DeadlineExceededError)
    expect(error).toMatchObject({ cause, message: expect.stringContaining(setting) })
  },
)

test.each(['57P01', undefined])('a transaction that ends otherwise has not: %s', (state) => {
  expect(timeLimitError(state, new Error('no'))).toBeUndefined()
})
