import { once } from 'node:events'
import { migrate } from '@onceward/postgres'
import { postgres, until } from '@onceward/testing'
import { expect, test } from 'vitest'
import { openDatabase } from '../data/database.ts'
import { recentMinutes, type Status } from '../data/status.ts'
import { answer, cli, running } from '../fixtures/cli.ts'
import { operated } from '../fixtures/operated.ts'

test('status counts what the guards did, by consumer and reason', async () => {
  await using at = await operated()
  for (const key of ['a', 'b', 'c']) await at.send(key, {})
  await at.kill('bad', 'no')
  await at.kill('waits', 'no')
  await at.sendBytes('bytes', Buffer.from('{'))
  await at.rest()
  await at.pool.query(`
    with event as (select event_id from onceward.failed_events where key = 'waits'),
    waiting as (update onceward.processed_events p set state = 'w' from event where p.event_id = event.event_id)
    update onceward.failed_events f set reason = null, next_try = now() + interval '1 hour'
    from event where f.event_id = event.event_id`)
  const { consumers, tables, ratesAreWhole } = await answer<Status>(['status'], at)
  expect(consumers).toMatchObject([
    {
      ...{ name: 'billing', doneMinute: 3, doneHour: 3, failedHour: 2 },
      ...{ inHand: 0, waiting: 1, parked: 0, hasPlace: false },
      dead: [
        { reason: 'fatal', count: 1 },
        { reason: 'invalid-payload', count: 1 },
      ],
    },
  ])
  expect(ratesAreWhole).toBe(true)
  expect(tables.map(({ name }) => name)).toContain('processed_events')
  const { stdout } = await cli(['status'], at)
  expect(stdout).toMatch(/CONSUMER +DONE\/MIN.*\nbilling +3 +3 +2 +0 +1 +0 +2/)
  expect(stdout).not.toContain('processed_events')
  expect((await cli(['status', '--tables'], at)).stdout).toMatch(/\nprocessed_events +\d/)
})

test('status is red where somebody is needed, yellow where it mends itself, and plain elsewhere', async () => {
  await using at = await operated()
  await at.kill('bad', 'no')
  await at.kill('waits', 'no')
  await at.rest()
  await at.pool.query(`insert into onceward.consumers (name, dedup_window_ms, fingerprint_rule)
    select other, dedup_window_ms, fingerprint_rule from onceward.consumers, (values ('fine'), ('slow')) as others (other)`)
  await at.pool.query(`
    with event as (
      update onceward.failed_events f set reason = null, next_try = now() + interval '1 hour',
        consumer_id = (select id from onceward.consumers where name = 'slow')
      where f.key = 'waits' returning event_id
    )
    update onceward.processed_events p set state = 'w' from event where p.event_id = event.event_id`)
  const { stdout } = await cli(['status'], { ...at, env: { FORCE_COLOR: '1' } })
  const [red, yellow, bold] = ['\u001b[31m', '\u001b[33m', '\u001b[1m']
  const beginnings = stdout.split('\n').map((line) => line.slice(0, line.indexOf(' ')))
  for (const row of [`${bold}CONSUMER`, `${red}billing`, 'fine', `${yellow}slow`]) {
    expect(beginnings).toContain(row)
  }
  expect((await cli(['status'], at)).stdout).not.toContain('\u001b')
})

// Red before: a consumer that worked was "seen 6 min ago", and nothing said that none did.
test('status and doctor say how many workers a consumer has, and since when it has none', async () => {
  await using at = await operated()
  await at.send('a', {})
  const status = async () => (await answer<Status>(['status'], at)).consumers[0]
  const doctor = async () => (await cli(['doctor'], at)).stdout
  await until(async () => (await status())?.workers.length === 1)
  expect(await status()).toMatchObject({
    noWorkerSinceMs: null,
    workers: [{ name: expect.stringMatching(new RegExp(`:${process.pid}$`)) }],
  })
  expect((await cli(['status'], at)).stdout).toMatch(/\nbilling .* 1\n/)
  await at.rest()
  expect(await status()).toMatchObject({ noWorkerSinceMs: expect.any(Number), workers: [] })
  // A restart is no finding.
  expect(await doctor()).not.toContain('No worker')
  await at.pool.query(`
    update onceward.consumers set worker_ended_at = now() - interval '6 min', seen_at = now() - interval '7 min'`)
  expect((await cli(['status'], at)).stdout).toMatch(
    /\nNo worker of billing since \S+Z \(6 min.* ago\)\.\n/,
  )
  expect(await doctor()).toMatch(
    /No worker of billing since \S+Z \(6 min[^)]*\)\.\n +→ Start the consumer billing\./,
  )
})

test('status counts the dead letters that their place has not taken yet, with the age of the oldest', async () => {
  await using at = await operated()
  for (const key of ['a', 'b', 'c']) await at.kill(key, 'no')
  await at.sendBytes('bytes', Buffer.from('{'))
  await at.rest()
  const unpublishedOf = async () => {
    const { consumers, nowMs } = await answer<Status>(['status'], at)
    return consumers.map(({ oldestUnpublishedMs: atMs, unpublished, unpublishedLate }) => ({
      ...{ unpublished, unpublishedLate },
      ageMin: atMs === null ? null : Math.floor((nowMs - atMs) / 60_000),
    }))
  }
  // Without a dead-letter place there is nothing to wait for.
  expect(await unpublishedOf()).toEqual([{ unpublished: 0, unpublishedLate: 0, ageMin: null }])
  expect((await cli(['status'], at)).stdout).not.toContain('NOT PUBLISHED')
  await at.pool.query(`
    update onceward.consumers set has_place = true;
    update onceward.failed_events set published = true where key = 'a';
    update onceward.failed_events set last_failed_at = now() - interval '20 minutes' where key = 'b';
    update onceward.refused_messages set last_failed_at = now() - interval '90 minutes'`)
  expect(await unpublishedOf()).toEqual([{ unpublished: 3, unpublishedLate: 2, ageMin: 90 }])
  const { stdout } = await cli(['status'], at)
  expect(stdout).toMatch(/NOT PUBLISHED YET +COUNT +OLDEST\nbilling +3 +1 h 30 min\n/)
})

test('watch looks again and again, and shows how the tables grow', async () => {
  await using at = await operated()
  const twice = ['--interval', '200ms', '--times', '2']
  const { code, stdout } = await cli(['watch', ...twice, '--tables'], at)
  expect(code).toBe(0)
  expect(stdout.match(/^CONSUMER/gm)).toHaveLength(2)
  expect(stdout).toMatch(/rows\/s/)
  expect(stdout).not.toContain('\u001b')
  expect((await cli(['watch', ...twice], at)).stdout).not.toMatch(/rows\/s/)
  const lines = await cli(['watch', ...twice, '--json'], at)
  expect(
    lines.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
  ).toHaveLength(2)
})

test('a database without consumers says so', async () => {
  await using at = await operated()
  expect((await cli(['status'], at)).stdout).toContain('No consumer has registered yet.')
})

test('sweep deletes what is older than the window, and nothing while a clock may be wrong', async () => {
  await using at = await operated()
  for (const key of ['a', 'b']) await at.send(key, {})
  await at.rest()
  const swept = (...args: readonly string[]) => answer<object>(['sweep', ...args], at)
  expect(await swept()).toEqual({ kind: 'swept', deleted: 0 })
  await at.pool.query(
    "update onceward.processed_events set processed_at = now() - interval '16 days'",
  )
  await at.pool.query("update onceward.settings set swept_at = now() + interval '2 hours'")
  const refused = await cli(['sweep'], at)
  expect(refused.code).toBe(1)
  expect(refused.stdout).toMatch(
    /0 events deleted, because a clock may be wrong: .*sweep --trust-clock/,
  )
  expect(await swept('--trust-clock')).toEqual({ kind: 'swept', deleted: 2 })
})

// Red before: it said to run the same command again.
test('a machine whose clock is wrong sweeps nothing, and is told so', async () => {
  await using at = await operated()
  await at.rest()
  const hours = 7_200_000
  const clock = `data:text/javascript,const{now}=Date;Date.now=()=>now()+${hours}`
  const env = { NODE_OPTIONS: `--import=${clock}` }
  const { code, stdout } = await cli(['sweep', '--trust-clock'], { url: at.url, env })
  expect(code).toBe(1)
  expect(stdout).toMatch(/this process differ by more than an hour\. Set the clock of this machine/)
})

test('a sweep that begins in the middle of the table reads the beginning too', async () => {
  await using at = await operated()
  await at.send('a', {})
  await at.rest()
  await at.pool.query(
    "update onceward.processed_events set processed_at = now() - interval '16 days'",
  )
  await at.pool.query('update onceward.settings set sweep_cursor = 1000')
  const swept = await answer(['sweep', '--trust-clock'], at)
  expect(swept).toEqual({ kind: 'swept', deleted: 1 })
  // Red when each step confirms the clock again.
  const { rows } = await at.pool.query('select clock from onceward.settings')
  expect(rows).toEqual([{ clock: 1 }])
})

test('of a table that is too large, the last pages and those that were swept are read', async () => {
  await using at = await operated()
  await at.send('first', {})
  await at.rest()
  // Some twenty pages.
  await at.pool.query(`
    insert into onceward.processed_events (event_id, fingerprint, consumer_id)
    select gen_random_uuid(), 0, (select consumer_id from onceward.processed_events limit 1) from generate_series(1, 2000)`)
  await using database = openDatabase(at.url, 'onceward')
  const count = async (mostPages: number): Promise<readonly [number, boolean]> => {
    const { isWhole, minutes } = await database.read((query) =>
      recentMinutes(query, database, mostPages),
    )
    return [minutes.reduce((sum, each) => sum + each.count, 0), isWhole]
  }
  expect(await count(1_000)).toEqual([2_001, true])
  const [part, isWhole] = await count(4)
  expect(isWhole).toBe(false)
  expect(part).toBeGreaterThan(0)
  expect(part).toBeLessThan(2_001)
  await at.pool.query('update onceward.settings set sweep_cursor = 5')
  expect((await count(4))[0]).toBeGreaterThan(part)
})

test('watch goes on while the database is restarted', async () => {
  await using server = await postgres({ native: true })
  await using at = await operated(await server.createDatabase())
  await at.rest()
  const watching = running(['watch', '--json', '--interval', '100ms'], at.url)
  const exit = once(watching, 'exit')
  const told = { looks: 0, problems: '' }
  watching.stdout.on('data', () => {
    told.looks += 1
  })
  watching.stderr.on('data', (chunk: Buffer) => {
    told.problems += chunk.toString()
  })
  await until(() => told.looks > 0)
  await server.kill()
  await until(() => /No connection to PostgreSQL at .* Trying again\.\n/.test(told.problems))
  await server.restart()
  const { looks } = told
  await until(() => told.looks > looks)
  watching.kill('SIGINT')
  expect(await exit).toEqual([0, null])
})

test('a schema of any name is read', async () => {
  await using at = await operated()
  const schema = `it's "odd"`
  await migrate(at.pool, { schema })
  const { consumers, leases } = await answer<Status>(['status', '--schema', schema], at)
  expect({ consumers, leases }).toEqual({ consumers: [], leases: 0 })
})

// Red when all tables of the schema are shown, and found to need a vacuum.
test('tables of others in the same schema are not shown', async () => {
  await using at = await operated()
  await migrate(at.pool, { schema: 'public' })
  await at.pool.query('create table public.orders (id integer)')
  const { tables } = await answer<Status>(['status', '--schema', 'public'], at)
  const names = tables.map(({ name }) => name)
  expect(names).toHaveLength(16)
  expect(names).not.toContain('orders')
})
