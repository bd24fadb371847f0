import { redis, skipped } from '@onceward/testing'
import { expect, test } from 'vitest'
import type { Finding } from '../data/finding.ts'
import { answer, cli } from '../fixtures/cli.ts'
import { operated } from '../fixtures/operated.ts'

interface Found {
  readonly findings: readonly Finding[]
}

/** The servers of tests have fsync off, which the doctor rightly reports. */
const others = ({ findings }: Found): readonly Finding[] =>
  findings.filter(({ finding }) => !/^(fsync|full_page_writes) is off/.test(finding))

test('each finding comes with the sentence that repairs it, and the exit code is 1', async () => {
  await using at = await operated()
  expect(others(await answer<Found>(['doctor'], at))).toEqual([])
  await at.kill('order-1', 'no')
  await at.rest()
  await at.pool.query(`
    alter role current_user in database ${new URL(at.url).pathname.slice(1)} set idle_in_transaction_session_timeout = '5s';
    update onceward.settings set swept_at = now() - interval '2 days';
    update onceward.failed_events set last_failed_at = now() - interval '1 hour';
    update onceward.consumers set has_place = true`)
  const { code, stdout } = await cli(['doctor', '--horizon', 'billing=30d'], at)
  expect(code).toBe(1)
  expect(stdout).toMatch(/idle_in_transaction_session_timeout is 5 s[^→]*→ Set idle_in_transaction/)
  expect(stdout).toMatch(/Nothing has been swept for 2 d[^→]*→ Look for the error/)
  expect(stdout).toMatch(
    /The queue of billing can deliver[^→]*30 d[^→]*15 d[^→]*→ Raise `dedupWindowMs`/,
  )
  expect(stdout).toMatch(
    /1 dead letter of billing could not be published[^→]*→ Check the dead-letter/,
  )
  expect(stdout).toMatch(
    /1 dead letter of billing wait[^→]*→ Run `npx onceward dead-letters list --consumer billing`/,
  )
  expect(stdout.indexOf('warning')).toBeGreaterThan(stdout.lastIndexOf('error  '))
})

// Red before: the doctor found nothing.
test('tables that guards refuse are findings of the doctor', async () => {
  await using at = await operated()
  await at.rest()
  await at.pool.query(`
    alter table onceward.processed_events set unlogged`)
  expect(others(await answer<Found>(['doctor'], at))).toEqual([
    {
      ...{ severity: 'error', about: 'tables' },
      finding: expect.stringMatching(/^"onceward"\.processed_events is unlogged: /),
      remedy: 'Run `alter table "onceward".processed_events set logged`.',
    },
  ])
})

test.skipIf(skipped('redis'))('Redis is examined too, and nothing is left in it', async () => {
  await using at = await operated()
  await using server = await redis({
    settings: { appendonly: 'no', 'maxmemory-policy': 'allkeys-lru' },
  })
  const { url } = server.connection
  const about = async (...more: readonly string[]): Promise<readonly string[]> => {
    const { findings } = await answer<Found>(['doctor', '--redis', url, ...more], at)
    return findings.filter((each) => each.about === 'redis').map(({ finding }) => finding)
  }
  expect(await about()).toEqual([expect.stringContaining('may evict live claims')])
  expect(await about('--redis-alone')).toEqual([
    expect.stringContaining('it may evict them'),
    expect.stringContaining('it loses them at a restart'),
  ])
})

test('a Redis that cannot be reached is named without its password', async () => {
  await using at = await operated()
  const redisUrl = 'redis://:s3cr3t-pass@127.0.0.1:1'
  const { code, stderr } = await cli(['doctor', '--redis', redisUrl], at)
  expect(code).toBe(3)
  expect(stderr).toMatch(/^onceward: No connection to Redis at 127\.0\.0\.1:1: .*ECONNREFUSED/)
  expect(stderr).not.toContain('s3cr3t-pass')
})
