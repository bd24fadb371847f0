import { ODD_ERRORS } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { classifyError } from './errors.ts'

// Red when reading the error throws: a rejection while a failure is handled ends the consumer, or the process.
test.each(ODD_ERRORS)(
  'any value that is thrown is classified, with a text of bounded length: %s',
  (_what, value) => {
    const { text } = classifyError(value)
    expect([typeof text, text.length < 2_100]).toEqual(['string', true])
  },
)
