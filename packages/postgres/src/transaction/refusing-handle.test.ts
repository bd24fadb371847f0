import { DeadlineExceededError } from '@onceward/core'
import { expect, test } from 'vitest'
import { timeLimitError } from './time-limits.ts'

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
