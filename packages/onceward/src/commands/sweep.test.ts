import { afterEach, describe, expect, test, vi } from 'vitest'
import { commanded } from '../fixtures/commanded.ts'
import { type Answers, CURRENT } from '../fixtures/scripted-database.ts'
import { sweepCommand } from './sweep.ts'

const HOUR = 3_600_000
const cursor = (pages: number, aheadMs = 0) => ({
  ...{ page: 0, pages, nowMs: Date.now() + aheadMs, sweptMs: null, clock: 0 },
  shortestWindowMs: null,
})
const sweeping = (at: object, lock = 'true'): Answers => [
  ['onceward.sweep:', [lock]],
  ["'page', sweep_cursor", [at]],
  ['from old', ['3']],
  ...CURRENT,
]
const hasConfirmed = ({ asked }: Awaited<ReturnType<typeof commanded>>): boolean =>
  asked.some(({ sql }) => sql.includes('trust_clock()'))

afterEach(() => {
  vi.useRealTimers()
})

test('what was deleted is counted, and no clock is confirmed', async () => {
  const ran = await commanded(sweepCommand, [], sweeping(cursor(1)))
  expect(ran).toMatchObject({ code: 0, stdout: '3 events deleted.\n', stderr: '' })
  expect(hasConfirmed(ran)).toBe(false)
})

test('--trust-clock confirms the clock of the database first', async () => {
  const ran = await commanded(sweepCommand, ['--trust-clock', '--json'], sweeping(cursor(1)))
  expect(ran.code).toBe(0)
  expect(JSON.parse(ran.stdout)).toEqual({ kind: 'swept', deleted: 3 })
  expect(hasConfirmed(ran)).toBe(true)
})

test('a terminal shows how far the sweep is, and no more than the answer stays', async () => {
  const { stderr } = process
  const { isTTY } = stderr
  stderr.isTTY = true
  try {
    const ran = await commanded(sweepCommand, [], sweeping(cursor(7)))
    expect(ran.stderr).toBe('\r\u001b[2Kswept to page 0 of 7\r\u001b[2K')
  } finally {
    stderr.isTTY = isTTY
  }
})

describe('a clock that may be wrong', () => {
  test.each([
    [[], 'If the clock of the database is right, run `npx onceward sweep --trust-clock`.'],
    [['--trust-clock'], 'Set the clock of this machine, then run the command again.'],
  ])('deletes nothing, and with %j the next step is said', async (args, step) => {
    const ran = await commanded(sweepCommand, args, sweeping(cursor(1, 2 * HOUR)))
    expect(ran.code).toBe(1)
    expect(ran.stdout).toMatch(/^0 events deleted, because a clock may be wrong: the clocks of/)
    expect(ran.stdout).toContain(step)
  })
})

test('a database that guards sweep all the time is left to them', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const running = commanded(sweepCommand, [], sweeping(cursor(1), 'false'))
  await vi.advanceTimersByTimeAsync(20_000)
  expect(await running).toMatchObject({
    ...{
      code: 1,
      stdout: expect.stringMatching(/^0 events deleted\. A guard sweeps all the time/),
    },
  })
})

test('nothing is swept in tables that this release cannot use', async () => {
  const ran = await commanded(sweepCommand, ['--trust-clock'])
  expect(ran.failure).toMatchObject({ message: expect.stringContaining('no tables') })
  expect(hasConfirmed(ran)).toBe(false)
})
