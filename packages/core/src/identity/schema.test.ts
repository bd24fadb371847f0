import * as v from 'valibot'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { InvalidPayloadError } from '../model/errors.ts'
import { validate as validateMaybe } from './schema.ts'

const validate = async (...args: Parameters<typeof validateMaybe>) => validateMaybe(...args)

const good = { orderId: 'o-1', cents: 100 }
const schemas = {
  zod: z.object({
    orderId: z.string(),
    cents: z.int(),
    currency: z.string().default('EUR'),
  }),
  valibot: v.object({
    orderId: v.string(),
    cents: v.pipe(v.number(), v.integer()),
    currency: v.optional(v.string(), 'EUR'),
  }),
  'asynchronous zod': z
    .object({ orderId: z.string(), cents: z.int(), currency: z.string().default('EUR') })
    .refine(async ({ cents }) => Promise.resolve(cents > 0), { error: 'cents must be positive' }),
  'asynchronous valibot': v.pipeAsync(
    v.object({ orderId: v.string(), cents: v.number(), currency: v.optional(v.string(), 'EUR') }),
    v.checkAsync(async ({ cents }) => Promise.resolve(cents > 0), 'cents must be positive'),
  ),
}

describe.each(Object.entries(schemas))('a schema of %s', (name, schema) => {
  test('gives the payload back with its defaults', async () => {
    expect(await validate(schema, good)).toEqual({ ...good, currency: 'EUR' })
  })

  test('names what does not fit and where', async () => {
    const refused = validate(schema, { orderId: 5 })
    await expect(refused).rejects.toThrow(InvalidPayloadError)
    await expect(refused).rejects.toThrow(/orderId: .*cents: /)
  })

  if (name.startsWith('asynchronous')) {
    test('is waited for', async () => {
      await expect(validate(schema, { ...good, cents: -1 })).rejects.toThrow(
        'cents must be positive',
      )
    })
  }
})

test('names five issues and counts the rest', async () => {
  const schema = z.array(z.string())
  const refused = validate(schema, [1, 2, 3, 4, 5, 6, 7])
  await expect(refused).rejects.toThrow(/^(?=.*\b4: )(?!.*\b5: ).*\(and 2 more\)$/)
})

test('names an issue of the whole payload without a place, and segments by their keys', async () => {
  const failing = (path?: readonly (PropertyKey | { key: PropertyKey })[]) => ({
    '~standard': {
      version: 1 as const,
      vendor: 'test',
      validate: () => ({ issues: [{ message: 'no', path }] }),
    },
  })
  await expect(validate(failing(), 1)).rejects.toThrow(/: no$/)
  await expect(validate(failing(['items', { key: 0 }]), 1)).rejects.toThrow(/: items\.0: no$/)
})
