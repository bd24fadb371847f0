import { expect, test } from 'vitest'
import type { DeadLetterAnswer } from '../model/guard-port.ts'
import type { Settlement } from '../model/settlement.ts'
import { SettleReport, settleDeadLetter, waitMsOf } from './settle-rules.ts'

const NOW_MS = 1_000_000
const defer = (reason: 'failed' | 'store-down' | 'in-progress' | 'not-due', afterMs: number) =>
  ({ kind: 'defer', reason, until: (NOW_MS + afterMs) as never }) as const
const lost = { kind: 'abandon', reason: 'lease-lost' } as const

test.each([
  // A retry comes when the guard says so; one that is due, at once.
  [defer('failed', 7_000), 0, 7_000],
  [defer('failed', -1), 5, 0],
  // What waits for the store is spread over a second.
  [defer('store-down', 2_000), 3, 2_500],
  // An event that runs elsewhere waits twice as long each time, up to the bound, and never shorter than the guard says.
  [defer('in-progress', 10), 0, 1_100],
  [defer('in-progress', 10), 1, 2_200],
  [defer('not-due', -9), 2, 4_400],
  [defer('in-progress', 10), 9, 5_500],
  [defer('not-due', 60_000), 9, 66_000],
  [lost, 0, 1_100],
  [lost, 9, 5_500],
])('%o in round %i waits %i ms', (settlement, rounds, waitMs) => {
  const runtime = { now: () => NOW_MS as never, random: () => 0.5 }
  expect(waitMsOf(settlement, { runtime, rounds, busiestMs: 5_000 })).toBeCloseTo(waitMs)
})

const error = new Error('no such queue')

test.each<[DeadLetterAnswer, boolean, string, number]>([
  [{ kind: 'published' }, false, 'over', 0],
  [{ kind: 'already' }, false, 'over', 0],
  [{ kind: 'retry', cause: 'publishing-elsewhere' }, false, 'again, not tried', 0],
  [{ kind: 'retry', cause: 'dead-letter-place-down', error }, false, 'again, tried', 1],
  // Its message is settled already, so nothing can be tried again.
  [{ kind: 'retry', cause: 'store-error', error }, true, 'over', 0],
])('after %o a dead letter is %s', async (answer, isOver, what, lines) => {
  const logged: unknown[] = []
  const logger = { error: (...line: unknown[]) => void logged.push(line) } as never
  const report = new SettleReport<string>({
    logger,
    fieldsOf: (id) => ({ id }),
    describe: (each) => `said ${String(each)}`,
  })
  const dead: Settlement = { kind: 'dead-letter', reason: 'fatal' }
  const settled = settleDeadLetter('m-1', dead, {
    port: { publishDeadLetter: async () => answer },
    place: { kind: 'publish', publish: async () => undefined },
    ...{ report, isOver: () => isOver },
    over: () => 'over',
    again: (wasTried) => `again, ${wasTried ? '' : 'not '}tried`,
  })
  expect(await settled).toBe(what)
  const text = 'a dead letter could not be published; it will be tried again'
  const line = [{ id: 'm-1', reason: 'said Error: no such queue' }, text]
  expect(logged).toEqual(new Array(lines).fill(line))
})
