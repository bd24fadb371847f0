import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { DEFAULTS } from './defaults.ts'
import { OPTION_DOCS } from './docs.ts'
import { OPTION_RULES } from './rules.ts'

const names = OPTION_DOCS.map(({ name }) => name)

test('every option has one row and one rule', () => {
  expect([...names].sort()).toEqual(Object.keys(OPTION_RULES).sort())
})

test('every option of the types has a row, and every row is an option', () => {
  const source = readFileSync(new URL('./options.ts', import.meta.url), 'utf8')
  const interfaces = source.slice(source.indexOf('export interface CommonOptions'))
  const fields = [...interfaces.matchAll(/^ {2}readonly (\w+)\??:/gm)].map(([, name]) => name)
  const nested = [...interfaces.matchAll(/^ {8}readonly (\w+)\??:/gm)].map(
    ([, name]) => `retry.${name}`,
  )
  const typed = [...fields, ...nested].filter((name) => name !== 'retry')
  expect([...new Set(typed)].sort()).toEqual([...names].sort())
})

test('every default is told as it is', () => {
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

test('every number has a unit, and every row says what and why in whole sentences', () => {
  for (const { name, type, unit, meaning, reason } of OPTION_DOCS) {
    expect(unit !== undefined, name).toBe(type === 'integer')
    if (name.endsWith('Ms')) expect(unit).toBe('milliseconds')
    for (const text of [meaning, reason]) expect(text, name).toMatch(/^[A-Z'].*\.$/)
  }
})
