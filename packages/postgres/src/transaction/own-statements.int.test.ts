import { ConfigurationError, RetryableError, StoreUnavailableError } from '@onceward/core'
import type { EventId } from '@onceward/core/ports'
import { database } from '@onceward/testing'
import { fresh, newEvent } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CLIENTS, type TestClient, type TestSession } from '../fixtures/clients.ts'
import { migrate } from '../operators/migrate.ts'

const RESULTS = 'onceward.event_results'
const TRIGGER = `create table payments (id uuid);
create function refuse() returns trigger language plpgsql as
  $$ begin raise exception 'not yours' using errcode = 'insufficient_privilege'; end $$;
create constraint trigger refuse after insert on payments initially deferred
  for each row execute function refuse()`

/*
 * Red before: each of these was a failed attempt of the event. After the last attempt every event whose handler returned
 * a result was dead-lettered, because of a lock, a missing right or a missing table of onceward.
 */
describe.each(CLIENTS)('a result that cannot be stored over $name', ({ make }) => {
  let observer: pg.Pool
  let client: TestClient
  let session: TestSession
  beforeAll(async () => {
    const { url } = await database()
    observer = new pg.Pool({ connectionString: url, max: 3 })
    await migrate(observer)
    await observer.query(TRIGGER)
    client = make({ connectionString: url, max: 4 })
    session = await client.open()
  })
  afterAll(() => Promise.all([client.close(), observer.end()]))

  async function errorOfCommit(statement = 'select'): Promise<unknown> {
    const event = newEvent()
    const { transaction, run } = await session.opened({ ...fresh(event), budgetMs: 500 })
    await run(statement)
    const results = new Map<EventId, string>([[event.id, '1']])
    const answer = await transaction.commit({ results, recovered: [] })
    return answer.kind === 'rolled-back' ? answer.error : answer
  }

  it('because its table is missing is a matter of the store', async () => {
    await observer.query(`alter table ${RESULTS} rename to gone`)
    const error = await errorOfCommit()
    await observer.query('alter table onceward.gone rename to event_results')
    expect(error).toBeInstanceOf(ConfigurationError)
  })

  it('because its table is locked is a matter of the store', async () => {
    const other = await observer.connect()
    await other.query(`begin; lock table ${RESULTS}`)
    const error = await errorOfCommit()
    await other.query('rollback')
    other.release()
    expect(error).toBeInstanceOf(StoreUnavailableError)
  })

  // Red before: the event was deferred for ever as an outage of the store, and no attempt was counted.
  it('because the handler made its transaction read-only is a failure of the event', async () => {
    const error = await errorOfCommit('set transaction read only')
    expect(error).toBeInstanceOf(RetryableError)
    expect(error).toMatchObject({ cause: expect.objectContaining({ code: '25006' }) })
  })

  it('because a deferred trigger of the handler refuses is a failure of the event', async () => {
    const error = await errorOfCommit('insert into payments values (null)')
    expect(error).toMatchObject({ code: '42501', message: 'not yours' })
  })
})
