import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { readEnvelope, writeEnvelope } from '../adapter/envelope.ts'
import { deliveryError } from '../guard/guard.ts'
import { toDelivery } from '../memory/index.ts'
import { describeError, isAggregateError, isError, messageOf, toReadableError } from './errors.ts'

// As code of Jest, whose classes are others than those of Node.
const foreign = (code: string): unknown => runInNewContext(code)

// Red before: the type was `object`, and the code, the stack and the causes were lost.
test('an error of another realm is described with its code, stack and causes', () => {
  const error = foreign(
    `Object.assign(new TypeError('no', { cause: new Error('why') }), { code: 'E_NO' })`,
  )
  expect(error).not.toBeInstanceOf(Error)
  expect(isError(error)).toBe(true)
  expect(toReadableError(error)).toBe(error)
  expect(describeError(error)).toMatchObject({
    name: 'TypeError',
    message: 'no',
    code: 'E_NO',
    stack: expect.stringContaining('TypeError: no'),
    cause: { name: 'Error', message: 'why' },
  })
})

// Red before: the text was `AggregateError`, as when localhost refuses at both of its addresses.
test('an AggregateError of another realm is named by what it holds', () => {
  const error = foreign(`new AggregateError([new Error('refused'), new Error('late')])`)
  expect(isAggregateError(error)).toBe(true)
  expect(messageOf(error)).toBe('refused, late')
  expect(describeError(error).aggregateErrors).toMatchObject([
    { message: 'refused' },
    { message: 'late' },
  ])
})

// Red when the name is enough: naming the error throws, in the middle of handling another one.
test('an error that is only called AggregateError is named by its class', () => {
  for (const errors of [undefined, 'none']) {
    const error = Object.assign(new Error(''), { name: 'AggregateError', errors })
    expect(isAggregateError(error)).toBe(false)
    expect(messageOf(error)).toBe('Error')
    expect(describeError(error)).not.toHaveProperty('aggregateErrors')
  }
})

test('an object that only looks like an error is none', () => {
  expect(isError({ name: 'Error', message: 'no', stack: '' })).toBe(false)
  expect(isAggregateError({ name: 'AggregateError', errors: [] })).toBe(false)
  expect(isAggregateError(foreign(`new Error('no')`))).toBe(false)
  expect(isAggregateError(Object.assign(new Error('no'), { errors: ['a', 'b'] }))).toBe(false)
})

// Red before: bytes were stored as an object of numbers, and a date as an object without fields.
test('bytes and dates of another realm are stored in an envelope as bytes and dates', () => {
  const message = foreign(`({ bytes: new Uint8Array([1, 2]), at: new Date(5) })`)
  const stored: unknown = readEnvelope(writeEnvelope(message))
  expect(stored).toEqual({ bytes: new Uint8Array([1, 2]), at: new Date(5) })
})

// Red before: a ConfigurationError that said the body is an object.
test('a delivery may have a body of another realm', () => {
  const body = foreign('new Uint8Array([123, 125])') as Uint8Array
  expect(deliveryError('The argument', { ...toDelivery({}), body })).toBeUndefined()
})
