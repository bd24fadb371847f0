import { expect, test } from 'vitest'
import { DEFAULTS, OPTION_DOCS, OPTION_RULES, withDefaults } from './table.ts'

test('every default stands in the documents as the engine uses it', () => {
  const { retry, ...flat } = DEFAULTS
  const nested = Object.entries(retry).map(([name, value]) => [`retry.${name}`, value] as const)
  for (const [name, value] of [...Object.entries(flat), ...nested]) {
    expect(OPTION_DOCS.find((doc) => doc.name === name)?.default, name).toBe(value)
  }
})

test('every default keeps its own rule', () => {
  for (const { name, default: value } of OPTION_DOCS) {
    if (typeof value !== 'number') continue
    expect(OPTION_RULES[name]?.accepts(value), name).toBe(true)
  }
})

test('every number has a unit, and every row says what it is in whole sentences', () => {
  for (const { name, type, unit, meaning } of OPTION_DOCS) {
    expect(unit !== undefined, name).toBe(type === 'integer')
    if (name.endsWith('Ms')) expect(unit).toBe('milliseconds')
    expect(meaning, name).toMatch(/^[A-Z'].*\.$/)
  }
})

test('an option that is not given, or given as undefined, has its default, nested ones too', () => {
  const given = { leaseMs: undefined, concurrency: 3, retry: { attempts: 2, baseMs: undefined } }
  expect(withDefaults(given)).toEqual({
    ...DEFAULTS,
    concurrency: 3,
    retry: { ...DEFAULTS.retry, attempts: 2 },
  })
  expect(withDefaults({})).toEqual(DEFAULTS)
})
