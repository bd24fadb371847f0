import { postgres, until } from '@onceward/testing'
import { newEvent } from '@onceward/testing/conformance'
import { describe, expect, it } from 'vitest'
import { CLIENTS } from '../fixtures/clients.ts'
import { migrate } from '../migrate.ts'

describe.each(CLIENTS)('the short transactions over $name', ({ make }) => {
  // Red when the warning is not heard: the message is acked, and a failover loses its dead letter.
  it('a dead letter that no standby has confirmed is not recorded', async () => {
    const settings = { synchronous_standby_names: 'nobody' }
    await using server = await postgres({ native: true, settings })
    const connectionString = server.connection.url
    const lonely = make({ connectionString, options: '-c synchronous_commit=local', max: 3 })
    await migrate(lonely.pool)
    const guard = await lonely.open({}, { concurrency: 1 })
    await lonely.pool.query(`
      create function wait() returns trigger language plpgsql as
      $$ begin perform set_config('synchronous_commit', 'on', true); return null; end $$;
      create trigger wait after insert on onceward.failed_events execute function wait()`)
    const event = newEvent()
    const error = new Error('why')
    const burying = expect(
      guard.bury([{ event, attempt: 1, error, reason: 'fatal' }]),
    ).rejects.toThrow(/not replicated/)
    await until(async () => {
      const { rows } = await lonely.pool.query(
        `select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'`,
      )
      return rows.length === 1
    })
    await burying
    expect(await guard.classify([event])).toMatchObject([{ kind: 'dead' }])
    await lonely.close()
  })
})
