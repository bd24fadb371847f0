import { RetryableError } from '@onceward/core'
import { database, until } from '@onceward/testing'
import { newEvent } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { SPARE_CONNECTIONS } from '../driver/pool-slots.ts'
import {
  CLIENTS,
  NOTHING,
  type TestClient,
  type TestSession,
  type TestTransaction,
  useWholePool,
} from '../fixtures/clients.ts'
import { lockWaiters } from '../fixtures/inbox.ts'
import { migrate } from '../operators/migrate.ts'

/** Runs a statement of the test while the server commits. */
const AT_COMMIT = `
create table at_commit (statement text);
create function run_at_commit() returns trigger language plpgsql as
  $$ begin execute new.statement; return null; end $$;
create constraint trigger run after insert on at_commit
  deferrable initially deferred for each row execute function run_at_commit()`

describe.each(CLIENTS)('while the server commits over $name', ({ make }) => {
  let client: TestClient
  let observer: pg.Pool
  let session: TestSession

  beforeAll(async () => {
    const { url } = await database()
    observer = new pg.Pool({ connectionString: url, max: 2 })
    await migrate(observer)
    await observer.query(AT_COMMIT)
    client = make({ connectionString: url, max: 4 })
    session = await client.open()
  })
  // However a transaction ends, its connection and its slot are free again.
  afterEach(() => useWholePool(session, client))
  afterAll(async () => {
    await client.close()
    await observer.end()
  })

  const event = newEvent()
  async function begun(statement: string): Promise<TestTransaction> {
    const open = await session.begun(event)
    await open.run('insert into at_commit values ($1)', [statement])
    return open
  }

  it('an error that reads like a lost connection is an ordinary failure', async () => {
    // Red when its text decides: the outcome is then unknown each time, and no failure of the event is counted.
    const { transaction } = await begun("do $do$ begin raise 'Connection terminated'; end $do$")
    expect(await transaction.commit(NOTHING)).toMatchObject({
      kind: 'rolled-back',
      error: { code: 'P0001' },
    })
  })

  it('an error after which the backend is gone makes the outcome unknown', async () => {
    // Red when any error with a SQLSTATE counts as the answer to COMMIT: a backend that is shut down may report one
    // after it has committed.
    const { transaction } = await begun('select pg_terminate_backend(pg_backend_pid())')
    expect(await transaction.commit(NOTHING)).toMatchObject({
      kind: 'unknown',
      error: { code: 'ONCEWARD_COMMIT_UNKNOWN' },
    })
    expect(await session.classify([event])).toEqual([{ kind: 'absent' }])
  })

  it('a revocation changes nothing', async () => {
    // Red when the COMMIT is cancelled: once it was sent, only the server decides.
    const gate = await observer.connect()
    await gate.query('select pg_advisory_lock(1)')
    const { transaction } = await begun('select pg_advisory_xact_lock(1)')
    const answer = transaction.commit(NOTHING)
    await until(async () => (await lockWaiters(observer)) === 1)
    transaction.revoke(new RetryableError('the deadline passed'))
    // A cancel would go over one of the spare connections, before this statement.
    for (let round = 0; round < SPARE_CONNECTIONS; round++) await session.classify([event])
    await gate.query('select pg_advisory_unlock(1)')
    gate.release()
    expect(await answer).toEqual({ kind: 'committed' })
    expect(await session.classify([event])).toMatchObject([{ kind: 'done' }])
  })
})
