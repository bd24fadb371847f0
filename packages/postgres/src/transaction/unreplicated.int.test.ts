import { postgres, until } from '@onceward/testing'
import { newEvent } from '@onceward/testing/conformance'
import { describe, expect, it } from 'vitest'
import { CLIENTS, NOTHING } from '../fixtures/clients.ts'
import { migrate } from '../operators/migrate.ts'

/** The functions with which an administrator ends the wait for a standby. The transaction is committed here all the same. */
type End = 'pg_cancel_backend' | 'pg_terminate_backend'

// Red when a role does not get the warning, which alone tells that the wait was cancelled.
const ROLES = [
  ['hears warnings', ''],
  ['hides warnings', ' -c client_min_messages=error'],
] as const

describe.each(CLIENTS)('the wait for a standby over $name', ({ make }) => {
  /** A server whose standby does not exist. Only what asks for it with `synchronous_commit` waits. */
  async function setUp(settings: string) {
    const server = await postgres({
      native: true,
      settings: { synchronous_standby_names: 'nobody' },
    })
    const lonely = make({
      connectionString: server.connection.url,
      options: `-c synchronous_commit=local${settings}`,
      max: 3,
    })
    await migrate(lonely.pool)
    const guard = await lonely.open({}, { concurrency: 1 })
    const endWait = (end: End): Promise<unknown> =>
      until(async () => {
        const { rows } = await lonely.pool.query(
          `select ${end}(pid) from pg_stat_activity where wait_event = 'SyncRep'`,
        )
        return rows.length === 1
      })
    const close = async (): Promise<void> => {
      await lonely.close()
      await server.stop()
    }
    return { pool: lonely.pool, guard, endWait, [Symbol.asyncDispose]: close }
  }

  it.each(ROLES)(
    'a commit that no standby has confirmed is not acknowledged, if the role %s',
    async (_, settings) => {
      await using lonely = await setUp(settings)
      const { endWait, guard } = lonely
      // After a cancel a warning says so, and after a terminate only an error.
      const ends = [
        ['pg_cancel_backend', 'not-replicated'],
        ['pg_terminate_backend', 'unknown'],
      ] as const
      const commitNext = async () => (await guard.begun(newEvent())).transaction.commit(NOTHING)
      for (const [end, kind] of ends) {
        const event = newEvent()
        const { transaction, run } = await guard.begun(event)
        await run('set local synchronous_commit = on')
        const committing = transaction.commit(NOTHING)
        await endWait(end)
        const answer = await committing
        expect(answer).toMatchObject({ kind, error: { code: 'ONCEWARD_COMMIT_UNKNOWN' } })
        expect(await guard.classify([event])).toMatchObject([{ kind: 'done' }])
        // The next one on this connection waits for no standby.
        expect(await commitNext()).toEqual({ kind: 'committed' })
      }
    },
  )

  // Red when the warning is not heard: the message is acked, and a failover loses its dead letter.
  it.each(ROLES)(
    'a dead letter that no standby has confirmed is not recorded, if the role %s',
    async (_, settings) => {
      await using lonely = await setUp(settings)
      const { endWait, guard, pool } = lonely
      await pool.query(`
      create function wait() returns trigger language plpgsql as
      $$ begin perform set_config('synchronous_commit', 'on', true); return null; end $$;
      create trigger wait after insert on onceward.failed_events execute function wait()`)
      const event = newEvent()
      const error = new Error('why')
      const burying = expect(
        guard.bury([{ event, attempt: 1, error, reason: 'fatal' }]),
      ).rejects.toThrow(/not replicated/)
      await endWait('pg_cancel_backend')
      await burying
      expect(await guard.classify([event])).toMatchObject([{ kind: 'dead' }])
    },
  )
})
