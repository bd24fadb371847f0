import { expect, test } from 'vitest'
import { examine } from './doctor.ts'

const guard = { deadlineMs: 10_000, maxAttempts: 5 }

test.each<readonly [text: string, worker: object]>([
  ['Set `maxStalledCount: 4`', { maxStalledCount: 1 }],
  ['`maxStartedAttempts`', { maxStartedAttempts: 3 }],
  ['Raise `lockDuration`', { skipLockRenewal: true, lockDuration: 5_000 }],
])('a worker whose settings lose jobs is told of: %s', (text, worker) => {
  const { problems, warnings } = examine({ queue: { opts: worker } }, guard)
  expect(problems).toEqual([])
  expect(warnings).toEqual([expect.stringContaining(text)])
})

test.each<readonly [what: string, job: object]>([
  ['fit', { queue: { opts: { maxStalledCount: 4, lockDuration: 5_000 } } }],
  ['are not known', {}],
])('nothing is told of settings that %s', (_, job) => {
  expect(examine(job, guard)).toEqual({ problems: [], warnings: [] })
})
