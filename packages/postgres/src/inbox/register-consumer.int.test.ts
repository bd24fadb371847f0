import { systemRuntime } from '@onceward/core/ports'
import { silent } from '@onceward/testing/conformance'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestInbox, testInbox } from '../fixtures/inbox.ts'

let inbox: TestInbox

beforeAll(async () => {
  inbox = await testInbox()
})
afterAll(() => inbox[Symbol.asyncDispose]())

describe('guards of one consumer', () => {
  it('keep the longer dedup window as long as the guard that wants it exists', async () => {
    const told: object[] = []
    const logger = { ...silent, warn: (fields: object): void => void told.push(fields) }
    const stored = async (): Promise<number> => {
      const { rows } = await inbox.pool.query(
        "select dedup_window_ms::float8 as ms from onceward.consumers where name = 'windows'",
      )
      return rows[0].ms
    }
    const open = (dedupWindowMs: number) =>
      inbox.open({ consumer: 'windows', dedupWindowMs, logger })
    await open(7_200_000)
    await open(3_600_000)
    expect(await stored()).toBe(7_200_000)
    expect(told).toMatchObject([{ dedupWindowMs: 3_600_000, inForceMs: 7_200_000 }])
    await open(9_000_000)
    expect(await stored()).toBe(9_000_000)
    await inbox.pass(2_000_000)
    // The registration of another guard does not keep the longer window alive.
    await open(3_600_000)
    expect(await stored()).toBe(9_000_000)
    await inbox.pass(1_600_001)
    await open(3_600_000)
    expect(await stored()).toBe(3_600_000)
    expect(told).toHaveLength(2)
  })

  it('use one id of the identity column, however often and in parallel they start', async () => {
    const consumer = 'restarted'
    const ids = async (): Promise<readonly number[]> => {
      const { rows } = await inbox.pool.query(
        "select id from onceward.consumers where name in ('restarted', 'restarted-next') order by id",
      )
      return rows.map(({ id }) => id)
    }
    await Promise.all([1, 2, 3].map(() => inbox.open({ consumer })))
    const burnt = await inbox.pool.query('select last_value::int from onceward.consumers_id_seq')
    for (let start = 0; start < 20; start++) await inbox.open({ consumer })
    await inbox.open({ consumer: 'restarted-next' })
    const [, next] = await ids()
    expect(next).toBe(burnt.rows[0].last_value + 1)
  })

  it('get an error for a chosen concurrency that the pool cannot carry, and a lower default', async () => {
    const { pool } = inbox
    await expect(inbox.open({ concurrency: 9, concurrencyChosen: true })).rejects.toThrow(
      /at least 11 connections .* got 10/,
    )
    const lowered = await inbox.open({ concurrency: 9, concurrencyChosen: false })
    expect(lowered.concurrency).toBe(pool.options.max - 2)
    expect((await inbox.open({ concurrency: 8, concurrencyChosen: true })).concurrency).toBe(8)
  })

  // Red when a guard registers only when it opens: another would sweep events that its broker can still redeliver.
  it('keep the window of a guard that polls, which writes once in ten minutes', async () => {
    let passedMs = 0
    const runtime = { ...systemRuntime, monotonic: () => systemRuntime.monotonic() + passedMs }
    const polling = await inbox.open({ consumer: 'lasting', dedupWindowMs: 7_200_000, runtime })
    const row = async (): Promise<{ readonly ms: number; readonly version: string }> => {
      const { rows } = await inbox.pool.query(
        "select dedup_window_ms::float8 as ms, xmin::text as version from onceward.consumers where name = 'lasting'",
      )
      return rows[0]
    }
    const pollAfter = async (ms: number): Promise<void> => {
      await inbox.pass(ms)
      passedMs += ms
      await polling.due(1)
    }
    for (const round of [1, 2, 3]) {
      const { version } = await row()
      await polling.due(1)
      expect((await row()).version, `round ${round}`).toBe(version)
      await pollAfter(2_400_000)
    }
    // Ten minutes after the last write, and not before.
    await polling.due(1)
    const { version: last } = await row()
    passedMs += 590_000
    await polling.due(1)
    expect((await row()).version).toBe(last)
    passedMs += 10_000
    await polling.due(1)
    expect((await row()).version).not.toBe(last)
    const before = await row()
    await polling.due(1)
    expect(await row()).toEqual(before)
    await inbox.open({ consumer: 'lasting', dedupWindowMs: 3_600_000 })
    expect((await row()).ms).toBe(7_200_000)
  })
})
