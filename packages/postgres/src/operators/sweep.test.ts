import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { PoolClientLike } from '../client.ts'
import { createStatements } from '../statements/index.ts'
import { type SweepOptions, sweep } from './sweep.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] }))
afterEach(() => void vi.useRealTimers())

interface Table {
  /** Where another sweep has ended. */
  page?: number
  pages?: number
  /** Tries in which another process sweeps. */
  busyTries?: number
  /** Of the server's clock. */
  aheadMs?: number
  schema?: string
}

/** A database whose table has this many pages, with three old events in each step. */
function tableOf({ page = 0, pages = 300, busyTries = 0, aheadMs = 0, schema }: Table) {
  const statements = createStatements(schema)
  const table = { page, busyTries, confirmed: 0 }
  const rowsOf = (text: string, values: readonly unknown[] = []): readonly string[] => {
    if (text === statements.trySweepLock) {
      table.busyTries -= 1
      return [String(table.busyTries < 0)]
    }
    if (text === statements.readSweepCursor) {
      const cursor = { page: table.page, pages, nowMs: Date.now() + aheadMs, sweptMs: null }
      return [JSON.stringify({ ...cursor, clock: 0, shortestWindowMs: null })]
    }
    if (text === statements.sweepPages) return ['3']
    if (text === statements.moveSweepCursor) table.page = Number(values[0])
    if (text === statements.confirmClock) table.confirmed += 1
    return []
  }
  const client: PoolClientLike = {
    query: async (text, values) => ({
      rows: rowsOf(text, values).map((answer) => ({ answer })),
      rowCount: null,
    }),
    release: () => undefined,
  }
  /** What the sweep reports. Its pauses cost no time. */
  const swept = async (options?: SweepOptions) => {
    const sweeping = sweep({ connect: async () => client }, options)
    await vi.advanceTimersByTimeAsync(60_000)
    return sweeping
  }
  return { swept, table }
}

test('a sweep reads the whole table in steps, and tells after each where it is', async () => {
  const { swept, table } = tableOf({})
  const onStep = vi.fn<NonNullable<SweepOptions['onStep']>>()
  expect(await swept({ onStep })).toEqual({ kind: 'swept', deleted: 9 })
  const places = [128, 256, 0].map((page) => [{ page, pages: 300 }])
  expect(onStep.mock.calls).toMatchObject(places)
  expect(table).toMatchObject({ page: 0, confirmed: 0 })
})

// Red when the pages before the place where a guard has stopped are left out.
test('a sweep that begins in the middle of the table reads its beginning too', async () => {
  const { swept } = tableOf({ page: 200 })
  expect(await swept()).toEqual({ kind: 'swept', deleted: 12 })
})

test('nothing is swept by a clock that may be wrong', async () => {
  const { swept, table } = tableOf({ page: 7, aheadMs: 7_200_000 })
  expect(await swept()).toEqual({
    ...{ kind: 'doubtful', deleted: 0 },
    doubt: 'the clocks of the database and of this process differ by more than an hour',
  })
  expect(table.page).toBe(7)
})

test('a clock that is right is confirmed once where that is asked for', async () => {
  const { swept, table } = tableOf({})
  await swept({ confirmsClock: true })
  expect(table.confirmed).toBe(1)
})
