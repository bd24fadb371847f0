import { randomUUID } from 'node:crypto'
import { ConfigurationError, DeadlineExceededError, type LeaseStore } from '@onceward/core'
import type { CountedEvent, EventId, Fingerprint, OwnerToken } from '@onceward/core/ports'
import { database, pgbouncer, until } from '@onceward/testing'
import { fresh, newEvent } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { CLIENTS, NOTHING, type TestClient, type TestSession } from './fixtures/clients.ts'
import { newEvents } from './fixtures/inbox.ts'
import { postgresLeases } from './lease-store.ts'
import { deadLetters } from './operators/dead-letters.ts'
import { migrate } from './operators/migrate.ts'

// Fewer server connections than clients, so that sessions are really shared.
const SERVER_CONNECTIONS = 3

describe.each(CLIENTS)('PgBouncer in transaction mode, over $name', ({ make }) => {
  let bouncer: Awaited<ReturnType<typeof pgbouncer>>
  let direct: pg.Pool
  let client: TestClient
  let session: TestSession

  beforeAll(async () => {
    const { url } = await database()
    direct = new pg.Pool({ connectionString: url, max: 2 })
    const settings = { default_pool_size: String(SERVER_CONNECTIONS) }
    const { hostname, port, username, pathname } = new URL(url)
    const name = pathname.slice(1)
    const connection = { url, host: hostname, port: Number(port), user: username, database: name }
    await direct.query(`alter database "${name}" set lock_timeout = '7s'`)
    bouncer = await pgbouncer({ connection }, { settings })
    client = make({ connectionString: bouncer.connection.url, max: 8 })
    await migrate(client.pool)
    await direct.query('create table charges (id uuid primary key)')
    session = await client.open()
  })
  afterAll(async () => {
    await client.close()
    await direct.end()
    await bouncer.stop()
  })

  it('supports claims, results and verdicts', async () => {
    const events = newEvents(40)
    await Promise.all(
      events.map(async (event, index) => {
        const { transaction, run } = await session.begun(event)
        await run('insert into charges values ($1)', [event.id])
        if (index % 4 > 0)
          return transaction.commit({ results: new Map([[event.id, '1']]), recovered: [] })
        return transaction.rollbackAndFail([{ event, attempt: 1, error: 'no', delayMs: 0 }])
      }),
    )
    const { rows } = await direct.query('select count(*)::int as n from charges')
    expect(rows[0].n).toBe(30)
    const known = await session.classify(events)
    expect(known.filter(({ kind }) => kind === 'done')).toHaveLength(30)
    expect(known.filter(({ kind }) => kind === 'waiting')).toHaveLength(10)
  })

  it('begins no transaction behind a COMMIT, because the settings of its session are not known', async () => {
    const { transaction } = await session.begun(newEvent())
    const next = { take: vi.fn(), begun: vi.fn() }
    expect(await transaction.commit(NOTHING, next)).toEqual({ kind: 'committed' })
    expect(next.take).not.toHaveBeenCalled()
  })

  it('gets back sessions without settings of a claim', async () => {
    const begun = [await session.begun(newEvent()), await session.begun(...newEvents(3))]
    for (const { run } of begun) {
      expect(await run('show lock_timeout')).toEqual([{ lock_timeout: '7s' }])
      expect(await run('show statement_timeout')).toEqual([{ statement_timeout: '30s' }])
    }
    for (const { transaction } of begun) await transaction.commit(NOTHING)
    for (let time = 0; time < 2 * SERVER_CONNECTIONS; time += 1) {
      const shown = await client.pool.query('show statement_timeout')
      expect(shown.rows).toEqual([{ statement_timeout: '0' }])
    }
  })

  it('trap T33: keeps no lock of a transaction that has ended', async () => {
    // Red when any of these takes a lock of the session: it stays with a server connection that serves others.
    const begunAndEnded = async (end: 'commit' | 'rollback' | 'rollbackAndFail') => {
      const event = newEvent()
      const { transaction } = await session.begun(event)
      if (end === 'commit') await transaction.commit(NOTHING)
      else if (end === 'rollback') await transaction.rollback()
      else await transaction.rollbackAndFail([failureOf({ event, attempt: 1 })])
    }
    const failureOf = (of: Pick<CountedEvent, 'event' | 'attempt'>) => ({
      ...{ error: 'no', delayMs: 0 },
      ...of,
    })
    const operator = deadLetters(client.pool)
    const leases = postgresLeases(client.pool)
    const letter = async () => {
      const burial = { ...failureOf(await session.counted(newEvent())), reason: 'fatal' } as const
      await session.bury([burial])
      return { kind: 'event', id: burial.event.id } as const
    }
    const steps: Readonly<Record<string, () => Promise<unknown>>> = {
      migrate: () => migrate(client.pool),
      open: () => client.open(),
      identity: () => session.identity(),
      commit: () => begunAndEnded('commit'),
      rollback: () => begunAndEnded('rollback'),
      rollbackAndFail: () => begunAndEnded('rollbackAndFail'),
      'begin a batch': async () => {
        const { transaction } = await session.begun(...newEvents(3))
        await transaction.commit(NOTHING)
      },
      classify: () => session.classify(newEvents(3)),
      fail: async () => session.fail([failureOf(await session.counted(newEvent()))]),
      'bury and publish': async () => {
        const ref = await letter()
        const right = await session.takePublishing(ref, 15_000)
        if (right.kind !== 'taken') throw new Error(right.kind)
        await session.endPublishing(ref, right.token, 'published')
      },
      'count again': async () => {
        const first = await session.counted(newEvent())
        await session.fail([failureOf(first)])
        const [again] = await session.count([first.event], 'together')
        expect(again).toMatchObject({ kind: 'counted', attempt: 2 })
      },
      refuse: () =>
        session.refuse([{ delivery: newEvent().delivery, reason: 'invalid-payload', error: 'x' }]),
      'replay and run': async () => {
        const { id } = await letter()
        await operator.replay(id)
        await session.due(10)
      },
      discard: async () => operator.discard((await letter()).id, 'a test'),
      sweep: () => session.sweep(),
      'leases of Postgres': () => leasesTaken(leases),
    }
    for (const [name, step] of Object.entries(steps)) {
      await step()
      const { rows } = await direct.query(
        `select locktype, mode from pg_locks
         where pid <> pg_backend_pid()
           and (locktype = 'advisory' or pid in (select pid from pg_stat_activity where state = 'idle'))
           and database = (select oid from pg_database where datname = current_database())`,
      )
      expect(rows, name).toEqual([])
    }
  })

  it('passes a cancel at the deadline to the right session', async () => {
    const event = newEvent()
    const { transaction, run } = await session.begun(event)
    const other = await session.begun(newEvent())
    const running = other.run('select pg_sleep(0.5)')
    const sleeping = run('select pg_sleep(60)').catch((error: unknown) => error)
    await until(
      async () =>
        (await direct.query("select from pg_stat_activity where wait_event = 'PgSleep'"))
          .rowCount === 2,
    )
    transaction.revoke(new DeadlineExceededError('too late'))
    await other.run('select 1').catch(() => undefined)
    await running
    expect(await other.transaction.commit(NOTHING)).toEqual({ kind: 'committed' })
    await transaction.rollback()
    expect(await sleeping).toBeInstanceOf(Error)
    await (await session.opened({ ...fresh(event), waitMs: 10_000 })).transaction.rollback()
  })
})

// Red when only the first claim finds out: every event would be deferred for ever.
describe.each(CLIENTS)('PgBouncer in statement mode, over $name', ({ make }) => {
  it('is refused at the start, by its name', async () => {
    const { url } = await database()
    const direct = new pg.Pool({ connectionString: url, max: 1 })
    await migrate(direct)
    await direct.end()
    const { hostname, port, username, pathname } = new URL(url)
    const name = pathname.slice(1)
    const connection = { url, host: hostname, port: Number(port), user: username, database: name }
    await using bouncer = await pgbouncer({ connection }, { poolMode: 'statement' })
    const client = make({ connectionString: bouncer.connection.url, max: 8 })
    // Once only: PgBouncer closes the connection on which it refused a statement.
    const error = await client.open().catch((refusal: unknown) => refusal)
    expect(error).toBeInstanceOf(ConfigurationError)
    expect(String(error)).toContain('pool_mode')
    await client.close()
  })
})

/** An event that is claimed and done in the lease store of Postgres. */
async function leasesTaken(leases: LeaseStore): Promise<void> {
  const [id, ownerToken] = [randomUUID() as EventId, randomUUID() as OwnerToken]
  const claim = { id, ownerToken, fingerprint: 1n as Fingerprint, leaseMs: 30_000, maxAttempts: 3 }
  const [answer] = await leases.claim([claim])
  if (answer?.kind !== 'acquired') throw new Error(`expected a claim, got ${answer?.kind}`)
  await leases.complete([{ id, ownerToken }], 60_000)
}
