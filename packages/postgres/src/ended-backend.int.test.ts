import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { database, until } from '@onceward/testing'
import pg from 'pg'
import { expect, test } from 'vitest'
import { dyingServer } from './fixtures/dying-server.ts'
import { migrate } from './operators/migrate.ts'

const WORKER = fileURLToPath(new URL('./fixtures/ended-worker.ts', import.meta.url))
const CALLS = ['migrate', 'replay', 'claim'] as const
const TYPED = { code: 0, ended: 'StoreUnavailableError ONCEWARD_STORE_UNAVAILABLE\n' }

interface Ended {
  /** Of the process. */
  readonly code: number | null
  /** How the call ended. */
  readonly ended: string
}

async function ending(...args: readonly string[]): Promise<Ended> {
  const child = spawn(process.execPath, ['--conditions=@onceward/source', WORKER, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exit = once(child, 'exit')
  const ended = await text(child.stdout)
  const [code] = await exit
  return { code, ended }
}

const BLOCKERS = {
  migrate: "select pg_advisory_xact_lock(hashtextextended('onceward.migrate:onceward', 0))",
  replay: 'lock table onceward.processed_events in access exclusive mode',
  claim: 'lock table onceward.leases in access exclusive mode',
} as const

// Red without a listener for errors of the client: the error event ends the process.
test.each(CALLS)(
  'a backend that is terminated while %s waits does not end the process',
  async (name) => {
    const { url } = await database()
    const pool = new pg.Pool({ connectionString: url, max: 2 })
    await migrate(pool)
    const blocker = await pool.connect()
    await blocker.query('begin')
    await blocker.query(BLOCKERS[name])
    const worker = ending(name, url, 'goes-on')
    await until(async () => {
      const { rowCount } = await pool.query(`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`)
      return rowCount === 1
    })
    expect(await worker).toEqual(TYPED)
    await blocker.query('rollback')
    blocker.release()
    await pool.end()
  },
)

test.each(
  CALLS.flatMap((name) => (['refused', 'connected'] as const).map((dies) => [name, dies] as const)),
)('a server that dies while %s connects (%s) does not end the process', async (name, dies) => {
  await using server = await dyingServer(dies)
  expect(await ending(name, server.url)).toEqual(TYPED)
})

// Red without a listener for errors of the pool. A failover or a restart ends idle connections.
test.each([...CALLS, 'handle', 'handle by Kysely'])(
  'an idle connection that is terminated after %s does not end the process',
  async (name) => {
    const { url } = await database()
    const pool = new pg.Pool({ connectionString: url, max: 1 })
    await migrate(pool)
    const worker = ending(name, url, 'idles')
    await until(async () => {
      const { rowCount } = await pool.query(`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name = 'idles' and state = 'idle'`)
      return rowCount === 1
    })
    expect(await worker).toEqual({ code: 0, ended: 'no error\n' })
    await pool.end()
  },
)
