import { expect, test } from 'vitest'
import { scriptedDriver } from '../fixtures/scripted-driver.ts'
import { figures } from './figures.ts'

const FOUND = { deadLetters: { fatal: 2 }, parked: 1, parkedForMs: 7_000, tables: [] }

// Red when a gauge gets null where nothing waits.
test.each([
  [
    'nothing waits',
    { ...FOUND, parked: 0, parkedForMs: null },
    { ...FOUND, parked: 0, parkedForMs: 0 },
  ],
  ['an event waits', FOUND, FOUND],
])('figures of one consumer, where %s', async (_what, found, told) => {
  const { asked, context } = scriptedDriver([found])
  expect(await figures(context)).toEqual(told)
  expect(asked.map(({ values }) => values)).toEqual([['5']])
})
