import { randomUUID } from 'node:crypto'
import { systemRuntime } from '@onceward/core/ports'
import { registration } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type TestInbox, testInbox } from '../fixtures/inbox.ts'
import { pgInbox } from '../pg.ts'
import { createStatements } from '../statements/index.ts'
import { PAGES_PER_STEP } from './retention.ts'

const DAY_MS = 86_400_000
let inbox: TestInbox

beforeEach(async () => {
  inbox = await testInbox({ dedupWindowMs: DAY_MS })
})
afterEach(() => inbox[Symbol.asyncDispose]())

async function insertOld(rows: number): Promise<void> {
  await inbox.pool.query(
    `insert into onceward.processed_events (event_id, fingerprint, consumer_id, processed_at)
     select gen_random_uuid(), 1, id, now() - interval '2 days'
     from onceward.consumers, generate_series(1, $1::int)`,
    [rows],
  )
}

async function sweepState(): Promise<{ readonly left: number; readonly cursor: number }> {
  const { rows } = await inbox.pool.query(
    `select sweep_cursor::int as cursor, (select count(*)::int from onceward.processed_events) as left
     from onceward.settings`,
  )
  return rows[0]
}

// Red when the limit of the role is the limit of a step: no step would ever end.
it('goes on under a role whose statement_timeout is shorter than a step', async () => {
  const role = `hasty_${randomUUID().slice(0, 8)}`
  await inbox.pool.query(`create role ${role} superuser login;
    alter role ${role} set statement_timeout = '20ms';
    create function slowly() returns trigger language plpgsql as
      $$ begin perform pg_sleep(0.1); return null; end $$;
    create trigger slowly after delete on onceward.processed_events
      for each statement execute function slowly()`)
  await insertOld(10)
  const address = Object.assign(new URL(inbox.url), { username: role })
  const pool = new pg.Pool({ connectionString: address.href, max: 4 })
  const options = { concurrency: 2, concurrencyChosen: true, dedupWindowMs: DAY_MS }
  const session = await pgInbox(pool).open(registration(systemRuntime, options))
  expect(await session.sweep()).toEqual({ deleted: 10, finished: true })
  await pool.end()
})

/** A server that cancels every step with more rows: as slow as that. */
async function slow(rows: number): Promise<void> {
  await inbox.pool.query(`
    create function too_slow() returns trigger language plpgsql as $$ begin
      if (select count(*) from old) > ${rows} then
        raise exception 'canceling statement due to statement timeout' using errcode = '57014';
      end if;
      return null;
    end $$;
    create trigger too_slow after delete on onceward.processed_events
      referencing old table as old for each statement execute function too_slow()`)
}

// Red with steps of one size: each is cancelled, and retention stops for ever.
it('makes smaller steps on a slow server, and larger ones again when it is fast', async () => {
  await insertOld(30_000)
  await slow(1_000)
  // Halved until a step fits.
  for (let size = PAGES_PER_STEP; size > 8; size /= 2) {
    expect(await inbox.session.sweep()).toEqual({ deleted: 0, finished: false })
  }
  const first = await inbox.session.sweep()
  expect(first?.deleted).toBeGreaterThan(0)
  expect(await sweepState()).toEqual({ left: 30_000 - (first?.deleted ?? 0), cursor: 8 })
  await inbox.pool.query('drop trigger too_slow on onceward.processed_events')
  let cursor = 8
  for (let size = 9; ; size += 1) {
    const step = await inbox.session.sweep()
    if (step?.finished === true) break
    cursor += size
    expect((await sweepState()).cursor).toBe(cursor)
  }
  expect(await sweepState()).toEqual({ left: 0, cursor: 0 })
})

it('reports a server on which even the smallest step takes too long', async () => {
  await insertOld(1_000)
  await slow(0)
  for (let size = PAGES_PER_STEP; size > 1; size /= 2) {
    expect(await inbox.session.sweep()).toEqual({ deleted: 0, finished: false })
  }
  await expect(inbox.session.sweep()).rejects.toThrow(/statement timeout/)
  await inbox.pool.query('drop trigger too_slow on onceward.processed_events')
  expect((await inbox.session.sweep())?.deleted).toBeGreaterThan(0)
})

interface PlanNode {
  readonly 'Actual Loops': number
  readonly 'Actual Rows': number
  readonly Plans?: readonly PlanNode[]
  readonly 'Relation Name'?: string
}

/** Rows of the table that a plan has read. */
const rowsOf = (table: string, { Plans = [], ...node }: PlanNode): number =>
  Plans.reduce(
    (sum, plan) => sum + rowsOf(table, plan),
    node['Relation Name'] === table ? node['Actual Loops'] * node['Actual Rows'] : 0,
  )

// Red before: the plan read all events in the order of their ids. With 300,000 dead letters and two million events the
// last step of each sweep took longer than a step may, so nothing was swept any more.
it('reads no event for a dead letter that is kept, and as many as it deletes for old ones', async () => {
  await inbox.pool.query(`
    with dead as (
      insert into onceward.processed_events (event_id, fingerprint, consumer_id, state)
      select gen_random_uuid(), 1, id, 'x' from onceward.consumers, generate_series(1, 500)
      returning event_id, consumer_id
    )
    insert into onceward.failed_events (event_id, consumer_id, attempt, key, reason)
    select event_id, consumer_id, 3, event_id::text, 'fatal' from dead`)
  await insertOld(5_000)
  await inbox.pool.query('analyze')
  const { sweepTroubled } = createStatements()
  const readEvents = async (): Promise<number> => {
    const { rows } = await inbox.pool.query(
      `explain (analyze, format json) ${sweepTroubled.replace('$1', "'20'")}`,
    )
    return rowsOf('processed_events', rows[0]['QUERY PLAN'][0].Plan)
  }
  expect(await readEvents()).toBe(0)
  await inbox.pass(31 * DAY_MS)
  // Each is read once to be found, and once to be deleted.
  expect(await readEvents()).toBeLessThanOrEqual(3 * 20)
  const { rows } = await inbox.pool.query(
    'select count(*)::int as left from onceward.failed_events',
  )
  expect(rows).toEqual([{ left: 480 }])
})
