import { expect, test } from 'vitest'
import { scriptedQuery } from '../fixtures/scripted-database.ts'
import { readWorkers, workersOf } from './workers.ts'

const NOW = 1_800_000_000_000
const agoS = (seconds: number): number => NOW - seconds * 1_000
const row = (silentS: number) => ({
  name: 'pod:1',
  startedAtMs: agoS(600),
  seenAtMs: agoS(silentS),
})

test.each([
  { what: 'a worker that lives', rows: [row(89)], ended: null, seen: 500, live: 1, since: null },
  { what: 'one that was killed', rows: [row(91)], ended: null, seen: 500, live: 0, since: 91 },
  {
    what: 'the last of several',
    rows: [row(400), row(91)],
    ended: 200,
    seen: 500,
    live: 0,
    since: 91,
  },
  { what: 'one that was closed', rows: [], ended: 1, seen: 500, live: 0, since: 1 },
  {
    what: 'one beside a killed one',
    rows: [row(5), row(300)],
    ended: 500,
    seen: 600,
    live: 1,
    since: null,
  },
  { what: 'a consumer without heartbeats', rows: [], ended: null, seen: 5, live: 0, since: null },
  // As after a rollback to an earlier release.
  { what: 'a guard without heartbeats later', rows: [], ended: 900, seen: 5, live: 0, since: null },
])('of $what: workers $live, none since $since s', ({ ended, live, rows, seen, since }) => {
  const consumer = { seenAtMs: agoS(seen), workerEndedAtMs: ended === null ? null : agoS(ended) }
  const { noWorkerSinceMs, workers } = workersOf(consumer, rows, NOW)
  expect(workers).toHaveLength(live)
  expect(noWorkerSinceMs).toBe(since === null ? null : agoS(since))
})

test('a login that may not read the table knows nothing of workers', async () => {
  const { query, asked } = scriptedQuery([['mayWorkers', [{ mayWorkers: false }]]])
  const of = await readWorkers(query, { quoted: '"onceward"' })
  const consumer = { id: 1, seenAtMs: NOW, workerEndedAtMs: null }
  expect(of(consumer, NOW)).toEqual({ workers: [], noWorkerSinceMs: null })
  expect(asked).toHaveLength(1)
})
