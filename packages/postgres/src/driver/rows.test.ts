import type { EventKey } from '@onceward/core/ports'
import { newEvent } from '@onceward/testing/conformance'
import { expect, test } from 'vitest'
import { answers, eventParameter, idArray, one, texts } from './rows.ts'

const answering = (...rows: readonly unknown[]) => ({
  query: async () => ({ rows: rows.map((answer) => ({ answer })), rowCount: rows.length }),
})

test('rows are read as texts, or as the JSON in them, in their order', async () => {
  const answer = await answering('{"n":1}', '[null]').query()
  expect(texts(answer)).toEqual(['{"n":1}', '[null]'])
  expect(answers(answer)).toEqual([{ n: 1 }, [null]])
  expect(await one(answering('{"n":1}', '{"n":2}'), 'select')).toEqual({ n: 1 })
})

// Red when a broken table looks like a row without fields.
test('a statement that always has a row is refused without one', async () => {
  await expect(one(answering(), 'select')).rejects.toThrow('returned none')
})

// Red when a fingerprint travels as a number: a double cannot hold 64 bits.
test('an event travels with its fingerprint in full, and without bytes that PostgreSQL cannot store', () => {
  const event = newEvent({ key: 'a\0b' as EventKey })
  const { id } = event
  const parameter = { id, fingerprint: '1311768467463790081', key: 'a\\u0000b' }
  expect(eventParameter(event)).toEqual({ ...parameter, tenant: undefined })
  expect(eventParameter({ ...event, tenant: 't\0' })).toEqual({ ...parameter, tenant: 't\\u0000' })
})

test('ids travel as one array', () => {
  expect(idArray([])).toBe('{}')
  expect(idArray([{ id: 'a' }, { id: 'b' }])).toBe('{a,b}')
})
