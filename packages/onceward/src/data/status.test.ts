import { afterEach, describe, expect, test, vi } from 'vitest'
import { NOW } from '../fixtures/facts.ts'
import { type Answers, scriptedQuery } from '../fixtures/scripted-database.ts'
import { readStatus, recentMinutes } from './status.ts'

const TABLES = { quoted: `"the shop's"` }
const PAGES = 'block_size'
const MINUTES = '"consumerId"'

afterEach(() => {
  vi.useRealTimers()
})

async function status(answers: Answers) {
  const { asked, query } = scriptedQuery(answers)
  return { status: await readStatus(query, TABLES), asked }
}

const COMMON = { nowMs: NOW, version: 3, sweptAtMs: NOW - 1_000, mayLease: true }

test('each consumer has its own counts, and its own dead letters', async () => {
  const dead = (consumer: string) => ({ consumer, reason: 'fatal', count: 1, oldestMs: NOW })
  const minute = (consumerId: number, age: number, count: number) => ({ consumerId, age, count })
  const tables = [{ name: 'audit' }]
  const { status: read } = await status([
    ['"sweptAtMs"', [COMMON]],
    ['"oldestMs"', [dead('b'), dead('a'), dead('gone')]],
    [PAGES, [{ pages: 1, cursor: 0 }]],
    [MINUTES, [minute(1, 0, 10), minute(2, 0, 100), minute(1, 1, 5), minute(1, 59, 3)]],
    [
      'as "hasPlace"',
      [
        { id: 1, name: 'a', waiting: 4 },
        { id: 2, name: 'b' },
      ],
    ],
    ['pg_stat_all_tables', tables],
    ['count(*) as count from "the shop\'s".leases', [{ count: 6 }]],
  ])
  expect(read).toEqual({
    ...{ nowMs: NOW, version: 3, sweptAtMs: NOW - 1_000, ratesAreWhole: true, leases: 6, tables },
    consumers: [
      { id: 1, name: 'a', waiting: 4, doneMinute: 10, doneHour: 18, dead: [dead('a')] },
      { id: 2, name: 'b', doneMinute: 100, doneHour: 100, dead: [dead('b')] },
    ],
  })
})

describe('leases', () => {
  test('are none if none is counted', async () => {
    expect((await status([['"sweptAtMs"', [COMMON]]])).status.leases).toBe(0)
  })

  test('of a login that may not read them are not counted', async () => {
    const { asked, status: read } = await status([
      ['"sweptAtMs"', [{ ...COMMON, mayLease: false }]],
    ])
    expect(read.leases).toBeNull()
    expect(asked.filter(({ sql }) => sql.includes('.leases where'))).toEqual([])
  })
})

test('a database that answers nothing has a status too', async () => {
  vi.useFakeTimers({ now: NOW })
  expect((await status([])).status).toEqual({
    ...{ nowMs: NOW, version: 0, sweptAtMs: null, consumers: [], tables: [], leases: null },
    ratesAreWhole: true,
  })
})

test('the name of the schema is quoted where it stands in a text of SQL', async () => {
  const { asked } = await status([['"sweptAtMs"', [COMMON]]])
  const texts = asked.map(({ sql }) => sql).filter((sql) => /\('"/.test(sql))
  expect(texts).toHaveLength(3)
  for (const text of texts) expect(text).toContain(`('"the shop''s"`)
})

describe('the minutes of the last hour', () => {
  const read = async (pages: number, cursor: number, mostPages?: number) => {
    const { asked, query } = scriptedQuery([[PAGES, [{ pages, cursor }]]])
    const { isWhole } = await recentMinutes(query, TABLES, mostPages)
    const limits = [...(asked[1]?.sql ?? '').matchAll(/'\((\d+),0\)'/g)].map(([, page]) =>
      Number(page),
    )
    return { isWhole, limits }
  }

  test('are read from the whole of a table of up to 64 MB', async () => {
    expect(await read(8_192, 5_000)).toEqual({ isWhole: true, limits: [] })
    expect(await read(8_193, 0)).toMatchObject({ isWhole: false })
    const minutes = [{ consumerId: 1, age: 0, count: 1 }]
    const { query } = scriptedQuery([[MINUTES, minutes]])
    expect(await recentMinutes(query, TABLES)).toEqual({ minutes, isWhole: true })
  })

  // The end of the table; and what the sweep, which is at the cursor, has just made room in.
  test.each([
    ['behind the start', 0, [90, 0, 0]],
    ['a little behind the start', 4, [90, 0, 4]],
    ['in the middle', 50, [90, 40, 50]],
    ['in the end', 95, [90, 80, 90]],
    ['beyond the end', 1_000, [90, 80, 90]],
  ])(
    'of a larger table are read from its end and from where the sweep was, %s',
    async (_, cursor, limits) => {
      expect(await read(100, cursor, 20)).toEqual({ isWhole: false, limits })
    },
  )

  test('of a larger table are read from whole pages', async () => {
    expect(await read(100, 50, 19)).toEqual({ isWhole: false, limits: [90, 40, 50] })
    expect(await read(10, 4, 1)).toEqual({ isWhole: false, limits: [9, 3, 4] })
  })
})
