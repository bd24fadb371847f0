import { memoryInbox } from '@onceward/core/memory'
import { expect, test } from 'vitest'
import { guardOf, requestOf } from '../fixtures/charges.ts'

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
