import { afterEach, expect, test, vi } from 'vitest'
import { NOW } from '../fixtures/facts.ts'
import { scriptedQuery } from '../fixtures/scripted-database.ts'
import { readTroubled } from './troubled.ts'

const TABLES = { quoted: '"shop"' }

afterEach(() => {
  vi.useRealTimers()
})

test('what runs, waits and is parked is shown with its keys as they were', async () => {
  const event = { id: 'e-1', key: String.raw`a\nb`, tenant: null }
  const { asked, query } = scriptedQuery([
    ['"nowMs"', [{ nowMs: NOW }]],
    ["p.state = 'r'", [event]],
    ['and not f.parked', [{ ...event, tenant: String.raw`t\u0000` }]],
    ['and f.parked', [event, event]],
  ])
  const shown = { ...event, key: 'a\nb' }
  expect(await readTroubled(query, TABLES, 7)).toEqual({
    ...{ nowMs: NOW, inHand: [shown], waiting: [{ ...shown, tenant: 't\0' }] },
    parked: [shown, shown],
  })
  expect(asked.map(({ values }) => values)).toEqual([[], [7], [7], [7]])
})

test('without an answer, now is the time of this machine', async () => {
  vi.useFakeTimers({ now: NOW })
  expect(await readTroubled(scriptedQuery([]).query, TABLES, 1)).toEqual({
    ...{ nowMs: NOW, inHand: [], waiting: [], parked: [] },
  })
})
