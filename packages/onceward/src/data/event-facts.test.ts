import { afterEach, describe, expect, test, vi } from 'vitest'
import { LEASE, NOW, REGISTERED, TROUBLE } from '../fixtures/facts.ts'
import { type Answers, scriptedQuery } from '../fixtures/scripted-database.ts'
import { readFacts } from './event-facts.ts'

const EVENT = { id: 'e-1', consumer: 'billing', key: 'a\nb', tenant: 'acme' }
const REFUSED = [{ id: 'r-1' }, { id: 'r-2' }]
const AUDIT = [{ who: 'alice' }]
const MAY: Answers = [['has_table_privilege', [{ may: true }]]]

async function read(answers: Answers) {
  const { asked, query } = scriptedQuery(answers)
  return { facts: await readFacts(query, { quoted: '"shop"' }, EVENT), asked }
}

afterEach(() => {
  vi.useRealTimers()
})

test('all that PostgreSQL knows of an event is read', async () => {
  const ROW = { state: 'w', atMs: NOW }
  const { asked, facts } = await read([
    ['"nowMs"', [{ nowMs: NOW }]],
    ['refused_messages', REFUSED],
    ['has_place', [REGISTERED]],
    ['processed_events', [ROW]],
    ['failed_events', [TROUBLE]],
    ['event_results', [{ result: '{"charged":true}' }]],
    ['audit', AUDIT],
    ...MAY,
    ['.leases', [LEASE]],
  ])
  expect(facts).toEqual({
    ...{ ...EVENT, nowMs: NOW, registration: REGISTERED, row: ROW, trouble: TROUBLE },
    ...{ result: '{"charged":true}', refused: REFUSED, audit: AUDIT, lease: LEASE },
  })
  const valuesOf = (words: string) => asked.find(({ sql }) => sql.includes(words))?.values
  // Keys are stored escaped.
  expect(valuesOf('refused_messages')).toEqual(['billing', String.raw`a\nb`])
  expect(valuesOf('has_place')).toEqual(['billing'])
  for (const table of ['processed_events', 'failed_events', 'event_results', '"shop".leases\n']) {
    expect(valuesOf(table)).toEqual(['e-1'])
  }
  // The story also tells what an operator did with a refused message of the same key.
  expect(valuesOf('audit')).toEqual([['e-1', 'r-1', 'r-2']])
  expect(valuesOf('"nowMs"')).toEqual([])
})

test('of an event that PostgreSQL does not know, nothing is there', async () => {
  vi.useFakeTimers({ now: NOW })
  const { facts } = await read(MAY)
  expect(facts).toEqual({
    ...{ ...EVENT, nowMs: NOW, registration: undefined, row: undefined, trouble: undefined },
    ...{ result: undefined, refused: [], audit: [], lease: undefined },
  })
})

describe('leases', () => {
  test.each<readonly [Answers]>([[[]], [[['has_table_privilege', [{ may: false }]]]]])(
    'that this login may not read (%j) are not asked for',
    async (answers) => {
      const { asked, facts } = await read([...answers, ['.leases', [LEASE]]])
      expect(facts.lease).toBe('forbidden')
      expect(asked.at(-1)).toMatchObject({ values: ['"shop".leases'] })
    },
  )
})
