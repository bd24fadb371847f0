import { expect, test } from 'vitest'
import { type ConsumerTrouble, troublesOf } from './consumer-trouble.ts'
import type { ConsumerStatus } from './status.ts'

const MINUTE = 60_000
const NOW = 1_800_000_000_000

const HEALTHY: ConsumerStatus = {
  ...{
    id: 1,
    name: 'billing',
    dedupWindowMs: 15 * 1_440 * MINUTE,
    seenAtMs: NOW,
    hasPlace: false,
    paused: null,
  },
  ...{ inHand: 0, oldestInHandMs: null, waiting: 0, parked: 0, nextTryMs: null },
  ...{ oldestWaitingMs: null, overdueMs: 0, doneMinute: 0, doneHour: 0 },
  ...{ workers: [], noWorkerSinceMs: null },
  ...{ unpublished: 0, oldestUnpublishedMs: null, unpublishedLate: 0, failedHour: 0, dead: [] },
}
const since = NOW - 20 * MINUTE
const PAUSED = {
  ...({ source: 'operator', by: 'ana', why: null } as const),
  ...{ sinceMs: since, untilMs: null },
}
const dead = [
  { consumer: 'billing', reason: 'fatal', count: 2, oldestMs: NOW },
  { consumer: 'billing', reason: 'takeover', count: 1, oldestMs: NOW },
]

test.each<readonly [Partial<ConsumerStatus>, readonly ConsumerTrouble[]]>([
  [{}, []],
  // A run that was counted is no trouble yet, and neither is a dead letter that is being published.
  [{ inHand: 3, unpublished: 1 }, []],
  [{ waiting: 2, parked: 1, nextTryMs: NOW }, [{ trouble: 'waiting', count: 3, nextTryMs: NOW }]],
  [{ dead }, [{ trouble: 'dead-letters', count: 3 }]],
  [{ noWorkerSinceMs: since }, [{ trouble: 'no-worker', sinceMs: since }]],
  [{ paused: PAUSED }, [{ trouble: 'paused', ...PAUSED }]],
  // A restart.
  [{ noWorkerSinceMs: NOW - MINUTE }, []],
  [
    {
      noWorkerSinceMs: since,
      dead,
      waiting: 1,
      unpublishedLate: 1,
      unpublished: 2,
      oldestUnpublishedMs: since,
    },
    [
      { trouble: 'dependency-down', count: 2, sinceMs: since },
      { trouble: 'no-worker', sinceMs: since },
      { trouble: 'dead-letters', count: 3 },
      { trouble: 'waiting', count: 1, nextTryMs: null },
    ],
  ],
])('a consumer with %j has these troubles, worst first', (over, troubles) => {
  expect(troublesOf({ ...HEALTHY, ...over }, NOW)).toEqual(troubles)
})
