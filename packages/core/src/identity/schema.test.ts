import * as v from 'valibot'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { InvalidPayloadError } from '../model/errors.ts'
import { validate as validateMaybe, withoutValuesOf } from './schema.ts'

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
  await expect(validate(failing(), 1)).rejects.toThrow(/schema: no$/)
  await expect(validate(failing(['items', { key: 0 }]), 1)).rejects.toThrow(/: items\.0: no$/)
})

const refusing = (issues: unknown) => ({
  '~standard': {
    version: 1 as const,
    vendor: 'test',
    validate: () => ({ issues }) as { readonly issues: readonly [] },
  },
})
const textOf = async (issues: unknown, payload: unknown = 1): Promise<string> => {
  const error: unknown = await validate(refusing(issues), payload).catch(
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(InvalidPayloadError)
  return (error as Error).message
}
test('no issues may be null or undefined', async () => {
  for (const issues of [null, undefined]) {
    const answer = { value: good, issues } as unknown as { readonly value: unknown }
    const schema = {
      '~standard': { version: 1 as const, vendor: 'test', validate: () => answer },
    }
    expect(await validate(schema, 1)).toBe(good)
  }
})

const throws = (): never => {
  throw new Error('reading it throws')
}

describe('the text about issues is bounded, whatever the schema answers', () => {
  const long = 'x'.repeat(1_000_000)
  // Red before: messages and paths of any length, and a TypeError for odd ones.
  test.each<[string, unknown]>([
    ['a long message', [{ message: long }]],
    ['a long path', [{ message: 'no', path: Array.from({ length: 100_000 }, () => 'deep') }]],
    ['a long segment', [{ message: 'no', path: [long] }]],
    ['many issues', Array.from({ length: 100_000 }, () => ({ message: long, path: [long] }))],
    ['a segment that is null', [{ message: 'no', path: [null] }]],
    ['a segment that is a symbol', [{ message: 'no', path: [Symbol('s')] }]],
    ['a path that is a number', [{ message: 'no', path: 5 }]],
    ['a message that cannot be read', [{ message: { toString: throws } }]],
    ['issues that are not objects', [undefined, null, 5]],
    ['no issue', []],
  ])('%s', async (_, issues) => {
    const text = await textOf(issues)
    expect(text.length).toBeLessThan(2_000)
    expect(text).toMatch(/^The payload does not fit the schema: /)
  })

  test('shows the beginning of a message up to a length that can be searched', async () => {
    const shown = (characters: number) => textOf([{ message: 'm'.repeat(characters) }])
    const prefix = 'The payload does not fit the schema: '
    expect(await shown(200)).toBe(`${prefix}${'m'.repeat(200)}`)
    expect(await shown(201)).toBe(`${prefix}${'m'.repeat(200)}…`)
    expect(await shown(10_000)).toBe(await shown(201))
    expect(await shown(10_001)).toBe(`${prefix}a message of 10001 characters`)
  })

  // Red before: a place behind twenty segments was named as one of those that hold it.
  test('names a deep place whole, or shows that it is cut', async () => {
    const placeOf = (segments: number) =>
      textOf([{ message: 'no', path: Array.from({ length: segments }, () => 'a') }])
    const prefix = 'The payload does not fit the schema: a'
    expect(await placeOf(50)).toBe(`${prefix}${'.a'.repeat(49)}: no`)
    expect(await placeOf(51)).toBe(`${prefix}${'.a'.repeat(49)}.…: no`)
  })

  test('shows a question mark for a segment without a name', async () => {
    const issue = { message: 'no', path: ['list', null, true, Symbol('s')] }
    expect(await textOf([issue])).toBe(
      'The payload does not fit the schema: list.?.?.Symbol(s): no',
    )
    expect(await textOf([null])).toMatch(/schema: no message$/)
  })

  test('is well-formed where it is cut', async () => {
    const text = await textOf([{ message: `${'m'.repeat(199)}\u{1f600}` }])
    expect([text.isWellFormed(), text.at(-1)]).toEqual([true, '…'])
  })

  test('and has no values of the payload', async () => {
    const payload = { card: '4111-1111', list: [{ pin: 98_765 }], text: 'with "quotes"' }
    const message = `Expected x but received "4111-1111", 98765 and ${JSON.stringify(payload.text)}`
    const text = await textOf([{ message, path: ['card'] }], payload)
    expect(text).toBe(
      'The payload does not fit the schema: card: Expected x but received "…", … and "…"',
    )
    const big = { secret: 's'.repeat(500_000) }
    expect(await textOf([{ message: `received ${JSON.stringify(big)}` }], big)).not.toContain('sss')
  })

  test('valibot, which says what it received, does not repeat it either', async () => {
    const schema = v.object({ orderId: v.pipe(v.string(), v.uuid()) })
    const refused = validate(schema, { orderId: 'my-secret-value' })
    await expect(refused).rejects.toThrow(/^(?!.*my-secret-value).*orderId: /)
  })
})

test.each([
  ['a promise', (result: unknown) => Promise.resolve(result)],
  [
    'a promise of another library',
    // biome-ignore lint/suspicious/noThenProperty: promises of other libraries have one
    (result: unknown) => ({ then: (next: (value: unknown) => void) => next(result) }),
  ],
])('%s of an answer is waited for, and its text has no values of the payload', async (_, later) => {
  const answering = (result: unknown) => ({
    '~standard': { version: 1 as const, vendor: 'test', validate: () => later(result) as never },
  })
  expect(await validate(answering({ value: good }), 1)).toBe(good)
  const refused = validate(answering({ issues: [{ message: 'got 4111-1111' }] }), '4111-1111')
  await expect(refused).rejects.toThrow(/schema: got …$/)
})

test.each([undefined, null, 5, 'text', {}, { issues: 'no' }, { issues: {} }])(
  'an answer that is no result of a Standard Schema (%o) refuses nothing: the message is retried',
  async (answer) => {
    const schema = {
      '~standard': { version: 1 as const, vendor: 'test', validate: () => answer as { value: 1 } },
    }
    const failed = validate(schema, 1)
    await expect(failed).rejects.toMatchObject({
      code: 'ONCEWARD_CONFIGURATION',
      message: expect.stringContaining('Expected `schema` to answer'),
    })
  },
)

test.each<[string, unknown, string, string]>([
  ['a text', { a: { b: ['secret'] } }, 'got "secret"', 'got "…"'],
  ['the payload itself', 'secret', 'got secret', 'got …'],
  ['a number', [12_345], 'got 12345, 12345', 'got …, …'],
  ['a BigInt', { a: 12_345n }, 'got 12345', 'got …'],
  ['a text as JSON writes it', { a: 'line\nbreak' }, String.raw`got "line\nbreak"`, 'got "…"'],
  ['a text with a part of another', ['1234', '12345678'], 'got 12345678', 'got …'],
  ['a text with a part of a later one', ['12345678', '1234'], 'got 12345678', 'got …'],
  ['a text of four characters', ['four'], 'four is not five', '… is not five'],
])('%s is replaced', (_name, payload, text, clean) => {
  expect(withoutValuesOf(payload, text)).toBe(clean)
})

test.each<[string, unknown]>([
  ['short', ['got', 12]],
  ['no text', [true, null, undefined, Symbol('got')]],
  ['names', { expected: 1 }],
])('values that are %s are left where they are', (_name, payload) => {
  expect(withoutValuesOf(payload, 'expected true, got null or undefined')).toBe(
    'expected true, got null or undefined',
  )
})

test('a long payload is looked through up to 2,000 values, and a circle ends', () => {
  const values = (count: number) => Array.from({ length: count }, (_, at) => `value-${at}-`)
  expect(withoutValuesOf(values(1_999), 'got value-0- and value-1998-')).toBe('got … and …')
  expect(withoutValuesOf(values(9_999), 'got value-0-')).toBe('got value-0-')
  expect(withoutValuesOf(values(9_999), 'got value-9998-')).toBe('got value-9998-')
  const circle: unknown[] = ['secret']
  circle.unshift(circle)
  expect(withoutValuesOf(circle, 'got secret')).toBe('got …')
})
