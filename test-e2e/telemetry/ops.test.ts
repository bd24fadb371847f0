// @module-tag nightly

import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { pauseConsumer, resumeConsumer } from '@onceward/postgres'
import { prometheus, prometheusBinaries, skipped, until } from '@onceward/testing'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { PANELS } from '../../ops/dashboard.ts'
import { impatientRules, RULES } from './impatient-rules.ts'
import { ask } from './queries.ts'
import { type WatchedRun, watchedRun } from './watched-run.ts'

const ops = join(import.meta.dirname, '../../ops')
const DEADLINE = { deadlineMs: 60_000 }
const QUERIES = PANELS.flatMap(({ queries }) => queries).map(({ expr }) => expr)

interface Rule {
  readonly alert: string
  readonly annotations: { readonly summary: string; readonly runbook_url: string }
}

async function alerts(): Promise<readonly Rule[]> {
  const { groups } = parse(await readFile(RULES, 'utf8'))
  return groups.flatMap((group: { readonly rules: readonly Rule[] }) => group.rules)
}

test('every alert names a chapter of docs/operations.md that exists, and has a test', async () => {
  const document = await readFile(join(ops, '../docs/operations.md'), 'utf8')
  const headings = [...document.matchAll(/^#+ (\w+)$/gm)].map(([, heading]) => heading)
  const { tests } = parse(await readFile(join(ops, 'alerts.test.yaml'), 'utf8'))
  const fire = JSON.stringify(tests)
  for (const { alert, annotations } of await alerts()) {
    expect(annotations.runbook_url).toBe(`docs/operations.md#${alert.toLowerCase()}`)
    expect(headings).toContain(alert)
    expect(fire).toContain(`"runbook_url":"${annotations.runbook_url}"`)
  }
})

describe.skipIf(skipped('prometheus'))('with a Prometheus', () => {
  test('the alerts fire and stay silent as ops/alerts.test.yaml says', async () => {
    const { promtool } = await prometheusBinaries()
    const args = ['test', 'rules', 'alerts.test.yaml']
    const { stdout } = await promisify(execFile)(promtool, args, { cwd: ops })
    expect(stdout).toContain('SUCCESS')
  })

  test.skipIf(skipped('postgres') || skipped('sqs'))(
    'every query of the dashboard has an answer after a run in which something of everything happened',
    async () => {
      await using run = await watchedRun()
      await using server = await prometheus({ targets: [run.health.port] })
      const { lines } = ask(server.connection.url)
      const empty = async (): Promise<readonly string[]> => {
        const answers = await Promise.all(QUERIES.map(lines))
        return QUERIES.filter((_, index) => answers[index]?.length === 0)
      }
      await run.send('orders', 'fatal')
      await until(
        async () => {
          await work(run)
          return (await empty()).length === 0
        },
        { ...DEADLINE, what: 'an answer to every query', everyMs: 500 },
      ).catch(async () => expect(await empty()).toEqual([]))
    },
  )

  test.skipIf(skipped('postgres') || skipped('sqs'))(
    'every alert fires in a run in which its cause was made',
    { tags: 'nightly', timeout: 600_000 },
    async () => {
      await using rules = await impatientRules()
      await using run = await watchedRun()
      await using server = await prometheus({ targets: [run.health.port], rules: [rules.file] })
      const { firing, lines } = ask(server.connection.url)
      const fires = (alert: string): Promise<unknown> =>
        until(async () => (await firing()).includes(alert), {
          ...DEADLINE,
          what: `the alert ${alert}`,
        })
      await work(run)
      await until(async () => (await lines('onceward_table_size')).length > 0, DEADLINE)
      expect(await firing()).toEqual([])

      for (let n = 0; n < 20; n += 1) await run.send('orders', `fatal-storm-${n}`)
      await Promise.all([fires('OncewardPoisonStorm'), fires('OncewardDeadLettersWaiting')])

      await run.pool.query(
        `insert into onceward.processed_events (event_id, fingerprint, consumer_id)
         select gen_random_uuid(), 0, 1 from generate_series(1, 20000)`,
      )
      await fires('OncewardTableGrowing')

      await run.pool.query(
        `insert into onceward.outbox_messages (bucket, message_id, destination, envelope, payload)
         values (0, 'm', 'a destination that no relay has', '{}', '{}')`,
      )
      await fires('OncewardOutboxWaiting')

      for (let n = 0; n < 12; n += 1) await run.send('slow', `hangs-${n}`)
      await fires('OncewardConsumerStalled')

      await pauseConsumer(run.pool, 'orders', { why: 'a test' })
      await fires('OncewardConsumerPaused')
      await resumeConsumer(run.pool, 'orders')

      // The dead-letter queue takes nothing and says nothing.
      run.network.onData = (direction, chunk) =>
        direction === 'up' && chunk.includes('AmazonSQS.SendMessage') ? 'drop' : 'pass'
      await run.send('orders', 'fatal-while-the-place-hangs')
      await fires('OncewardDeadLetterPlaceDown')
      run.network.onData = undefined

      await run.broker.kill()
      await Promise.all([fires('OncewardBrokerDown'), fires('OncewardConsumerNotRunning')])
      await run.broker.restart()

      await run.cache.kill()
      await work(run)
      await fires('OncewardLeasesDown')

      await run.database.kill()
      // An outage is noticed when the store is asked.
      await work(run)
      await fires('OncewardDatabaseDown')
      const names = new Set((await alerts()).map(({ alert }) => alert))
      // All but OncewardNoWorker: no worker of this run is silent for so long.
      expect(names.size).toBe(12)
    },
  )
})

let works = 0

/** An effect, a copy, and a retry. */
async function work(run: WatchedRun): Promise<void> {
  works += 1
  await run.send('orders', `good-${works}`, 2)
  await run.send('orders', `once-${works}`)
  await run.send('slow', `good-${works}`)
}
