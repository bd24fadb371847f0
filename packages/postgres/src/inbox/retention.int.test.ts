import { systemRuntime } from '@onceward/core/ports'
import { pgbouncer, postgres, skipped } from '@onceward/testing'
import { counted, fresh, newDelivery, newEvent, registration } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { all, type TestInbox, testInbox } from '../fixtures/inbox.ts'
import { migrate } from '../operators/migrate.ts'
import { pgInbox } from '../pg.ts'
import { PAGES_PER_STEP } from './retention.ts'

const DAY_MS = 86_400_000
let inbox: TestInbox

beforeEach(async () => {
  inbox = await testInbox()
})
afterEach(() => inbox[Symbol.asyncDispose]())

/** Inserts rows of the consumer `billing` with that age. */
async function insertDone(rows: number, ageMs: number): Promise<void> {
  await inbox.pool.query(
    `insert into onceward.processed_events (event_id, fingerprint, consumer_id, processed_at)
     select gen_random_uuid(), 1, (select id from onceward.consumers where name = 'billing'),
       now() - $2 * interval '1 millisecond' from generate_series(1, $1::int)`,
    [rows, ageMs],
  )
}

async function count(table: string): Promise<number> {
  const { rows } = await inbox.pool.query(`select count(*)::int as n from onceward.${table}`)
  return rows[0].n
}

async function sweepAll(): Promise<{ readonly steps: number; readonly deleted: number }> {
  let deleted = 0
  for (let steps = 1; ; steps += 1) {
    const step = await inbox.session.sweep()
    if (step === undefined) throw new Error('another process sweeps')
    deleted += step.deleted
    if (step.finished) return { steps, deleted }
  }
}

describe('the sweep', () => {
  it('goes through the table in steps of 128 pages, and continues where the last step ended', async () => {
    await insertDone(40_000, 2 * 3_600_000)
    const { rows } = await inbox.pool.query(
      "select pg_relation_size('onceward.processed_events')::int / 8192 as pages",
    )
    expect(rows[0].pages).toBeGreaterThan(2 * PAGES_PER_STEP)
    const first = await inbox.session.sweep()
    expect(first?.finished).toBe(false)
    // Another guard, as after a restart, goes on at the cursor.
    const other = await inbox.open()
    const second = await other.sweep()
    expect((first?.deleted ?? 0) + (second?.deleted ?? 0)).toBe(
      40_000 - (await count('processed_events')),
    )
    expect(await sweepAll()).toMatchObject({ steps: Math.ceil(rows[0].pages / PAGES_PER_STEP) - 2 })
    expect(await count('processed_events')).toBe(0)
    expect(await inbox.session.sweep()).toMatchObject({ deleted: 0 })
  })

  // Red with one window for all consumers.
  it('trap T23: uses the window of each consumer, and deletes results too', async () => {
    const { open, pass, session, steps } = inbox
    const long = await open({ consumer: 'archive', dedupWindowMs: 10 * DAY_MS })
    const [mine, theirs] = [newEvent(), newEvent()]
    await steps.commit(fresh(mine), new Map([[mine.id, '1']]))
    const begun = await long.begin(fresh(theirs))
    if (begun.kind !== 'open') throw new Error(begun.kind)
    await begun.transaction.commit({ results: new Map([[theirs.id, '2']]), recovered: [] })
    await pass(DAY_MS)
    expect(await sweepAll()).toMatchObject({ deleted: 1 })
    expect(await session.classify([mine, theirs])).toMatchObject([
      { kind: 'absent' },
      { kind: 'done', result: 2 },
    ])
    expect(await count('event_results')).toBe(1)
  })

  it('counts the window of a recovered event from its effect, not from its first failure', async () => {
    const { pass, steps } = inbox
    const event = newEvent()
    await steps.suspect(event)
    await pass(2 * 3_600_000)
    const mine = await steps.countAlone(event)
    await steps.commit(counted(mine))
    expect(await sweepAll()).toMatchObject({ deleted: 0 })
    expect(await steps.known(event)).toMatchObject({ kind: 'done' })
  })

  // Red when the record of a failure stays for ever: its deletion travels with the COMMIT of onceward only.
  it('deletes the record of a failure that a COMMIT of the handler left behind', async () => {
    const { pass, session, steps } = inbox
    const event = newEvent()
    await steps.suspect(event)
    const begun = await session.begin(counted(await steps.countAlone(event)))
    if (begun.kind !== 'open') throw new Error(begun.kind)
    await begun.transaction.commit({ results: new Map(), recovered: [] })
    expect(await count('failed_events')).toBe(1)
    await pass(DAY_MS)
    expect(await sweepAll()).toMatchObject({ deleted: 1 })
    expect(await count('failed_events')).toBe(0)
  })

  it('runs in one process at a time', async () => {
    const client = await inbox.pool.connect()
    await client.query('begin')
    await client.query(
      `select pg_advisory_xact_lock(hashtextextended('onceward.sweep:"onceward"', 0))`,
    )
    expect(await inbox.session.sweep()).toBeUndefined()
    await client.query('commit')
    client.release()
    const answers = await Promise.all(Array.from({ length: 4 }, () => inbox.session.sweep()))
    expect(answers).toContainEqual({ deleted: 0, finished: true })
  })

  // Red when the sweep locks the table, or walks it in one transaction.
  it('trap T24: blocks no claim, neither of new events nor of those it deletes', async () => {
    await insertDone(20_000, 2 * 3_600_000)
    const { pool, session } = inbox
    // The sweep's own statements, with its transaction kept open for the claims to run into.
    const sweeper = await pool.connect()
    await sweeper.query('begin')
    const { rows } = await sweeper.query(
      `delete from onceward.processed_events where ctid < '(100,0)' returning event_id::text as id`,
    )
    expect(rows.length).toBeGreaterThan(5_000)
    const deadline = AbortSignal.timeout(20_000)
    for (let round = 0; round < 20; round += 1) {
      const begun = await session.begin(fresh(newEvent()))
      expect(begun.kind).toBe('open')
      if (begun.kind === 'open')
        await begun.transaction.commit({ results: new Map(), recovered: [] })
    }
    // An event that is being deleted is past its window: its claim waits for the short step, and then it is new.
    const swept = newEvent({ id: rows[0].id })
    expect(await session.begin(fresh(swept))).toEqual({ kind: 'held' })
    await sweeper.query('commit')
    sweeper.release()
    const again = await session.begin(fresh(swept))
    expect(again.kind).toBe('open')
    if (again.kind === 'open') await again.transaction.rollback()
    expect(deadline.aborted).toBe(false)
  })

  it('locks only rows', async () => {
    await insertDone(1_000, 2 * 3_600_000)
    const { pool } = inbox
    const client = await pool.connect()
    await client.query('begin')
    await client.query(
      "delete from onceward.processed_events where ctid >= '(0,0)'::tid and ctid < '(128,0)'::tid",
    )
    const { rows } = await client.query(
      "select distinct mode from pg_locks where relation = 'onceward.processed_events'::regclass",
    )
    expect(rows).toEqual([{ mode: 'RowExclusiveLock' }])
    await client.query('rollback')
    client.release()
  })
})

describe('an unfinished event or dead letter', () => {
  it('is kept for thirty days', async () => {
    const { deadLetters, pass, session, steps } = inbox
    const dead = newEvent()
    await steps.buried(dead)
    const { event: running } = await steps.suspect(newEvent())
    const waiting = await steps.suspect(newEvent())
    await session.fail([{ ...waiting, error: 'x', delayMs: 0 }])
    const refusal = { delivery: newDelivery(), reason: 'invalid-payload', error: 'x' } as const
    await session.refuse([refusal])
    await pass(29 * DAY_MS)
    await sweepAll()
    expect(await all(deadLetters.list())).toHaveLength(2)
    await pass(2 * DAY_MS)
    await sweepAll()
    expect(await all(deadLetters.list())).toEqual([])
    const known = await session.classify([dead, running, waiting.event])
    expect(known.map(({ kind }) => kind)).toEqual(['absent', 'absent', 'absent'])
    expect(await count('failed_events')).toBe(0)
  })

  // Red when the row goes with its dead letter after 30 days: a late copy would run the event again.
  it('trap T25: stays dead as long as its consumer remembers, even if its dead letter is old', async () => {
    await using other = await testInbox({ dedupWindowMs: 60 * DAY_MS })
    const event = newEvent()
    await other.steps.buried(event)
    await other.pass(59 * DAY_MS)
    await other.session.sweep()
    expect(await other.steps.known(event)).toMatchObject({ kind: 'dead' })
    expect(await other.session.begin(fresh(event))).toMatchObject({ kind: 'none' })
    await other.pass(2 * DAY_MS)
    await other.session.sweep()
    expect(await other.steps.known(event)).toEqual({ kind: 'absent' })
  })

  // Red when it waits for the lock, or deletes by what it read before: the run would have no row to claim.
  it('is kept while another transaction uses it, and the sweep does not wait', async () => {
    const { pass, pool, session, steps } = inbox
    const [busy, old] = [await steps.suspect(newEvent()), await steps.suspect(newEvent())]
    const again = await steps.suspect(newEvent())
    await pass(31 * DAY_MS)
    await steps.countAlone(again.event)
    const counting = await pool.connect()
    await counting.query('begin')
    await counting.query(
      'select from onceward.processed_events where event_id = $1 for update nowait',
      [busy.event.id],
    )
    const swept = await sweepAll().catch((error: unknown) => error)
    await counting.query('rollback')
    counting.release()
    expect(swept).toMatchObject({ steps: 1 })
    const known = await session.classify([busy.event, again.event, old.event])
    expect(known.map(({ kind }) => kind)).toEqual(['running', 'running', 'absent'])
  })

  it('is kept while it is parked, because no broker has it any more', async () => {
    const { deadLetters, pass, session, steps } = inbox
    const event = newEvent()
    await steps.buried(event)
    const delivery = newDelivery()
    await session.refuse([{ delivery, reason: 'invalid-payload', error: 'x' }])
    await deadLetters.replay({ all: true })
    await pass(90 * DAY_MS)
    await sweepAll()
    const due = [event.delivery, delivery].map((stored) => ({ what: 'run', delivery: stored }))
    expect(await session.due(10)).toMatchObject(due)
  })
})

describe.skipIf(skipped('pgbouncer'))('behind PgBouncer in transaction mode', () => {
  it('trap T33: migrations and sweeps leave no lock behind on a server connection', async () => {
    await using server = await postgres()
    await using pooler = await pgbouncer(server, { settings: { default_pool_size: '2' } })
    const address = new URL(await server.createDatabase())
    address.host = `${pooler.connection.host}:${pooler.connection.port}`
    const pools = [1, 2, 3].map(() => new pg.Pool({ connectionString: address.href, max: 4 }))
    const applied = await Promise.all(pools.map((pool) => migrate(pool)))
    expect(applied.filter((one) => one.applied.length > 0)).toHaveLength(1)
    for (const pool of pools) {
      const session = await pgInbox(pool).open(
        registration(systemRuntime, { concurrency: 2, concurrencyChosen: true }),
      )
      // Red with a session lock: the second sweeper would find the lock on a connection that no client holds.
      expect(await session.sweep()).toEqual({ deleted: 0, finished: true })
      const event = newEvent()
      expect(await session.suspect([event], 100)).toMatchObject({ kind: 'answered' })
      const begun = await session.begin(fresh(newEvent()))
      if (begun.kind === 'open')
        await begun.transaction.commit({ results: new Map(), recovered: [] })
      expect(begun.kind).toBe('open')
    }
    const [pool] = pools
    const locks = await pool?.query(
      `select * from pg_locks where locktype = 'advisory'
         and database = (select oid from pg_database where datname = current_database())`,
    )
    expect(locks?.rows).toEqual([])
    await Promise.all(pools.map((one) => one.end()))
  })
})
