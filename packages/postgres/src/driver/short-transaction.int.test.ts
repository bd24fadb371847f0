import { randomUUID } from 'node:crypto'
import { StoreUnavailableError } from '@onceward/core'
import type { InboxSession } from '@onceward/core/ports'
import { database, until } from '@onceward/testing'
import { fresh, newDelivery, newEvent } from '@onceward/testing/conformance'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CLIENTS, NOTHING, type TestClient, type TestSession } from '../fixtures/clients.ts'
import { migrate } from '../operators/migrate.ts'

type Session = InboxSession<unknown>
type Write = (session: Session) => Promise<unknown>

const error = new Error('why')
const burial = () => ({ event: newEvent(), attempt: 1, error, reason: 'fatal' }) as const
const refusal = () => ({ delivery: newDelivery(), reason: 'missing-event-key', error }) as const

/** Publishes the dead letter of an event. */
async function publish(session: Session, as: 'published' | 'failed'): Promise<void> {
  const { event, ...why } = burial()
  await session.bury([{ event, ...why }])
  const ref = { kind: 'event', id: event.id } as const
  const right = await session.takePublishing(ref, 60_000)
  if (right.kind !== 'taken') throw new Error(`expected the right to publish, got ${right.kind}`)
  await session.endPublishing(ref, right.token, as)
}

const large = () => ({ ...newDelivery(), body: Buffer.alloc(1_500_000, 'x') })

/** Records after which a delivery is settled for good. */
const FINAL: Readonly<Record<string, Write>> = {
  'a burial': (session) => session.bury([burial()]),
  'several burials': (session) => session.bury([burial(), burial(), burial()]),
  'a burial of a large delivery': (session) =>
    session.bury([{ ...burial(), event: { ...newEvent(), delivery: large() } }]),
  'a refused message': (session) => session.refuse([refusal()]),
  'a large refused message': (session) => session.refuse([{ ...refusal(), delivery: large() }]),
  'a published dead letter': (session) => publish(session, 'published'),
  'a dead letter that could not be published': (session) => publish(session, 'failed'),
}

/** A server that crashes may forget these: the broker brings the event again. */
const COUNTS: Readonly<Record<string, Write>> = {
  'a failure': (session) => session.fail([{ event: newEvent(), attempt: 1, error, delayMs: 0 }]),
  'the count of a suspect': (session) => session.suspect([newEvent()], 1_000),
}
const WRITES = { ...FINAL, ...COUNTS }

const TABLES = ['processed_events', 'failed_events', 'refused_messages']

describe.each(CLIENTS)('the short transactions over $name', ({ make }) => {
  let url: string
  let client: TestClient
  let pool: pg.Pool
  let session: TestSession

  beforeAll(async () => {
    url = (await database()).url
    client = make({ connectionString: url, max: 3, options: '-c synchronous_commit=off' })
    pool = client.pool
    await migrate(pool)
    // What each write was made under, and a switch that makes writes fail.
    await pool.query(`
      create table written (setting text);
      create function watch_write() returns trigger language plpgsql as $$
      begin
        insert into public.written values (current_setting('synchronous_commit'));
        if current_setting('onceward_test.fails', true) = 'yes' then raise 'no space left'; end if;
        return null;
      end $$`)
    for (const table of TABLES) {
      await pool.query(
        `create trigger watch after insert or update on onceward.${table} for each row execute function public.watch_write()`,
      )
    }
    session = await client.open()
  })
  afterAll(() => client.close())

  const fails = async (setting: 'yes' | 'no'): Promise<void> => {
    await pool.query(
      `alter database ${new URL(url).pathname.slice(1)} set onceward_test.fails = ${setting}`,
    )
    const own = 'datname = current_database() and pid <> pg_backend_pid()'
    await pool.query(`select pg_terminate_backend(pid) from pg_stat_activity where ${own}`)
    // The connection of this query too.
    await pool.query('select pg_terminate_backend(pg_backend_pid())').catch(() => undefined)
    await until(() => pool.totalCount === 0)
  }

  // Red without DURABLE_IF_OFF: an acked dead letter is lost when the server crashes.
  it.each(Object.keys(FINAL))('%s is on disk, also if synchronous_commit is off', async (name) => {
    await pool.query('truncate written')
    await FINAL[name]!(session)
    const { rows } = await pool.query('select distinct setting from written')
    expect(rows).toEqual([{ setting: 'on' }])
  })

  // Red without the rollback: the pool lends a connection on which every statement fails.
  it.each(Object.keys(WRITES))(
    '%s that fails leaves no open transaction on its connection',
    async (name) => {
      await fails('yes')
      await expect(WRITES[name]!(session)).rejects.toThrow(/no space left/)
      const open = await pool.query(
        "select from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'",
      )
      expect(open.rowCount).toBe(0)
      expect([pool.idleCount, pool.waitingCount]).toEqual([pool.totalCount, 0])
      await fails('no')
      await WRITES[name]!(session)
    },
  )

  // Red when the pool lends it again: after a failover its connections would lead to the standby until they are idle for
  // long, which the poller prevents.
  it.each(['0A000', '25006'])(
    'a connection is closed whose server takes no writes (%s)',
    async (state) => {
      await pool.query(`
        create or replace function refuse_write() returns trigger language plpgsql as $$
        begin raise 'cannot set transaction read-write mode during recovery' using errcode = '${state}'; end $$;
        create trigger refuse before insert on onceward.processed_events
        for each row execute function refuse_write()`)
      await until(() => pool.idleCount === pool.totalCount)
      const before = pool.totalCount
      await expect(session.suspect([newEvent()], 1_000)).rejects.toThrow(/connect to the primary/)
      await until(() => pool.totalCount === before - 1)
      await pool.query('drop trigger refuse on onceward.processed_events')
    },
  )

  it('a claim that finds nothing to take gives its connection back if the read after it fails', async () => {
    const done = newEvent()
    await (await session.begun(done)).transaction.commit(NOTHING)
    await pool.query('alter table onceward.event_results rename to hidden_results')
    // More often than the pool has connections, and slots.
    for (let round = 0; round < 4; round++) {
      expect(await session.begin(fresh(done))).toEqual({ kind: 'none' })
    }
    await until(() => pool.idleCount === pool.totalCount)
    await pool.query('alter table onceward.hidden_results rename to event_results')
    expect(await session.begin(fresh(done))).toMatchObject({ kind: 'none', done: [{}] })
  })

  it('a claim that gets no connection gives its slot of the pool back', async () => {
    const role = `guard_${randomUUID().slice(0, 8)}`
    await pool.query(`create role ${role} login superuser`)
    const as = new URL(url)
    as.username = role
    const own = make({ connectionString: as.href, max: 3 })
    const guarded = await own.open()
    await pool.query(`alter role ${role} nologin`)
    await pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where usename = '${role}'`,
    )
    await until(() => own.pool.totalCount === 0)
    // More often than there are slots.
    for (let round = 0; round < 2; round++) {
      await expect(guarded.begin(fresh(newEvent()))).rejects.toBeInstanceOf(StoreUnavailableError)
    }
    await pool.query(`alter role ${role} login`)
    const { transaction } = await guarded.begun(newEvent())
    expect(await transaction.commit(NOTHING)).toEqual({ kind: 'committed' })
    await own.close()
  })
})
