import { memoryInbox } from '@onceward/core/memory'
import { expect, test } from 'vitest'
import { guardOf, requestOf } from '../fixtures/charges.ts'
import { type Content, compared, ofRequest } from './content.ts'

const content: Content = { method: 'POST', route: '/charges', json: { cents: 5 } }
const request = { content, payload: { cents: 5 } }

const validated = (validate?: (value: unknown) => unknown) => {
  const schema = validate && { '~standard': { version: 1, vendor: 'test', validate } }
  return ofRequest(schema as never)['~standard'].validate(request)
}

test('the schema sees the body, and what is compared is from before it', async () => {
  expect(validated()).toEqual({ value: { content, payload: { cents: 5 } } })
  const toText = (value: unknown): object => ({ value: JSON.stringify(value) })
  const expected = { value: { content, payload: '{"cents":5}' } }
  expect(validated(toText)).toEqual(expected)
  expect(await validated(async (value) => toText(value))).toEqual(expected)
})

test('the issues of the schema are passed on, also beside a value', () => {
  const issues = [{ message: 'too few' }]
  expect(validated(() => ({ issues }))).toEqual({ issues })
  expect(validated(() => ({ issues, value: 5 }))).toEqual({ issues, value: 5 })
  expect(validated(() => ({ issues: undefined, value: undefined }))).toEqual({
    value: { content, payload: undefined },
  })
  expect(validated(() => undefined)).toBeUndefined()
})

test('a function says which part of the payload is compared, besides the method and the route', async () => {
  const seen = { content, payload: { cents: 5, at: 7 } }
  expect(compared(seen, undefined)).toBe(content)
  expect(compared(seen, 'body')).toBe(content)
  const part = { method: 'POST', route: '/charges', of: 5 }
  const cents = (payload: unknown): unknown => Object(payload).cents
  expect(compared(seen, cents)).toEqual(part)
  expect(await compared(seen, async (payload: unknown) => cents(payload))).toEqual(part)
})

// Red when the schema gets the value that is compared: validators such as Ajv fill in defaults in place.
test('a retry that comes after a new default gets the answer, and no conflict', async () => {
  const inbox = memoryInbox()
  const validate = (value: unknown) => ({
    value: Object.assign(Object(value), { currency: 'EUR' }),
  })
  const schema = { '~standard': { version: 1 as const, vendor: 'in place', validate } }
  const [before, after] = [{ inbox }, { inbox, schema }].map((given) =>
    guardOf(() => ({ status: 201 }), given),
  )
  expect((await before?.fetch(requestOf({ key: 'k' })))?.status).toBe(201)
  expect((await after?.fetch(requestOf({ key: 'k' })))?.status).toBe(201)
  await Promise.all([before?.close(), after?.close()])
})
