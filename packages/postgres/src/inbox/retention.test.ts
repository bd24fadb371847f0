import { StoreUnavailableError, systemRuntime } from '@onceward/core'
import { silent } from '@onceward/testing/conformance'
import { expect, test } from 'vitest'
import {
  type Asked,
  type ScriptedAnswer,
  scriptedDriver,
  statements,
} from '../fixtures/scripted-driver.ts'
import { createSweep, PAGES_PER_STEP } from './retention.ts'

const NOW_MS = Date.UTC(2026, 0, 2)

const cursorAt = (page: number, pages: number, over: object = {}): ScriptedAnswer => [
  { page, pages, nowMs: NOW_MS, sweptMs: null, clock: 0, shortestWindowMs: null, ...over },
]
const MINE = ['true']

/** The name of a statement, and its values. */
const named = ({ text, values }: Asked): readonly unknown[] => [
  Object.entries(statements).find(([, each]) => each === text)?.[0],
  ...(values ?? []),
]

function sweepOver(answers: readonly ScriptedAnswer[], confirmsClock?: boolean) {
  const { asked, context } = scriptedDriver(...answers)
  const told: unknown[][] = []
  const logger = { ...silent, error: (...words: unknown[]) => void told.push(words) }
  const runtime = { ...systemRuntime, now: () => NOW_MS as never }
  const sweep = createSweep({
    ...{ driver: context.driver, statements, confirmsClock },
    registration: { consumer: 'billing', logger, runtime },
  })
  /** What one step answers, and what it asks. */
  const step = async () => {
    const from = asked.length
    const answer = await sweep().catch((error: unknown) => error)
    return { answer, asked: asked.slice(from).map(named) }
  }
  return { step, told }
}

const pagesOf = ({ asked }: { readonly asked: readonly (readonly unknown[])[] }): unknown =>
  asked.find(([name]) => name === 'sweepPages')?.slice(1)

test('a step deletes what is old on the next pages, and moves on', async () => {
  const { step } = sweepOver([MINE, cursorAt(128, 300), ['7'], []])
  expect(await step()).toEqual({
    answer: { deleted: 7, finished: false },
    asked: [
      ['trySweepLock'],
      ['readSweepCursor'],
      ['sweepPages', '(128,0)', '(256,0)'],
      ['moveSweepCursor', '256'],
    ],
  })
})

// Red when the step that ends with the table leaves the rest to a step on no pages.
test.each([
  ['in the middle of the table', 0, 300],
  ['at its end', 172, 300],
  ['beyond it, because it was truncated', 500, 0],
])('a step that begins %s knows whether it is the last', async (_where, page, pages) => {
  const { step } = sweepOver([MINE, cursorAt(page, pages), ['0']])
  const { answer, asked } = await step()
  const isLast = page > 0
  expect(answer).toEqual({ deleted: 0, finished: isLast })
  const troubled = ['sweepTroubled', 'sweepRefused', 'sweepSuspects'].map((name) => [name, '1024'])
  expect(asked.slice(3)).toEqual([
    ...(isLast ? troubled : []),
    ['moveSweepCursor', isLast ? '0' : '128'],
  ])
})

test('nothing is asked while another process sweeps', async () => {
  const { step } = sweepOver([['false']])
  expect(await step()).toEqual({ answer: undefined, asked: [['trySweepLock']] })
})

const cancelled = () =>
  new StoreUnavailableError('late', { cause: Object.assign(new Error('sql'), { code: '57014' }) })

test('a step that was too large for the server is halved, and grows again by a page', async () => {
  const slow: readonly ScriptedAnswer[] = [MINE, cursorAt(0, 900), cancelled()]
  const fine: readonly ScriptedAnswer[] = [MINE, cursorAt(0, 900), ['0'], []]
  const { step } = sweepOver([...slow, ...slow, ...fine, ...fine])
  const steps = [await step(), await step(), await step(), await step()]
  expect(steps.map(({ answer }) => answer)).toEqual(Array(4).fill({ deleted: 0, finished: false }))
  expect(steps.map(pagesOf)).toEqual(
    [PAGES_PER_STEP, 64, 32, 33].map((pages) => ['(0,0)', `(${pages},0)`]),
  )
})

test('a server on which even one page takes too long is reported', async () => {
  const halvings = Math.log2(PAGES_PER_STEP)
  const errors = Array.from({ length: halvings + 1 }, cancelled)
  const { step } = sweepOver(errors)
  for (let half = 0; half < halvings; half += 1) {
    expect((await step()).answer).toEqual({ deleted: 0, finished: false })
  }
  expect((await step()).answer).toBe(errors.at(-1))
})

test('any other error is thrown, and the next step is as large', async () => {
  const outage = new StoreUnavailableError('down')
  const { step } = sweepOver([outage, MINE, cursorAt(0, 900)])
  expect((await step()).answer).toBe(outage)
  expect(pagesOf(await step())).toEqual(['(0,0)', `(${PAGES_PER_STEP},0)`])
})

const DAY_MS = 86_400_000

test.each<[string, object, object]>([
  [
    'that was never swept by',
    { nowMs: NOW_MS + DAY_MS },
    {
      databaseTime: '2026-01-03T00:00:00.000Z',
      sweptAt: undefined,
    },
  ],
  [
    'that runs behind the last sweep',
    { sweptMs: NOW_MS + DAY_MS },
    {
      databaseTime: '2026-01-02T00:00:00.000Z',
      sweptAt: '2026-01-03T00:00:00.000Z',
    },
  ],
])(
  'nothing is deleted by a clock %s, and the report says how to confirm it',
  async (_, over, times) => {
    const { step, told } = sweepOver([MINE, cursorAt(0, 900, over)])
    expect(await step()).toEqual({
      answer: { deleted: 0, finished: true },
      asked: [['trySweepLock'], ['readSweepCursor']],
    })
    const { confirmClock } = statements
    const who = { consumer: 'billing', processTime: '2026-01-02T00:00:00.000Z' }
    expect(told).toEqual([
      [
        { ...who, ...times, confirm: confirmClock, doubt: expect.stringContaining('clock') },
        expect.stringContaining('nothing is swept'),
      ],
    ])
  },
)

// Red when a clock that was set between two steps is not noticed.
test('a step that was trusted is what the next one is measured by', async () => {
  const { step } = sweepOver([
    ...[MINE, cursorAt(0, 900), ['0'], []],
    ...[MINE, cursorAt(128, 900, { nowMs: NOW_MS - 3_500_000 }), ['0'], []],
    ...[MINE, cursorAt(256, 900, { nowMs: NOW_MS + 3_500_000 })],
  ])
  expect((await step()).answer).toMatchObject({ finished: false })
  expect((await step()).answer).toMatchObject({ finished: false })
  expect((await step()).answer).toMatchObject({ finished: true })
})

// Red when a clock is confirmed for a step that another process makes, or that fails: it would never be confirmed.
test('an operator confirms the clock once, in the first step that is done', async () => {
  const done = [MINE, [], cursorAt(0, 900), ['0'], []]
  const failed = [MINE, [], new StoreUnavailableError('down')]
  const { step } = sweepOver([['false'], ...failed, ...done, MINE, cursorAt(0, 900)], true)
  const steps = [await step(), await step(), await step(), await step()]
  const confirms = steps.map(({ asked }) => asked.some(([name]) => name === 'confirmClock'))
  expect(confirms).toEqual([false, true, true, false])
})

test('a guard confirms no clock', async () => {
  const { step } = sweepOver([MINE, cursorAt(0, 900)])
  expect((await step()).asked).not.toContainEqual(['confirmClock'])
})
