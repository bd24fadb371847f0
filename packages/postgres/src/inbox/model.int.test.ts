import { systemRuntime } from '@onceward/core/ports'
import { database, turnOf, until } from '@onceward/testing'
import { type InboxUnderTest, inboxModel } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, beforeAll, describe } from 'vitest'
import { passTime } from '../fixtures/inbox.ts'
import { deadLetters } from '../operators/dead-letters.ts'
import { migrate } from '../operators/migrate.ts'
import { pgInbox } from '../pg.ts'

let pool: pg.Pool
let subject: InboxUnderTest<unknown>

beforeAll(async () => {
  const { url } = await database()
  pool = new pg.Pool({ connectionString: url, max: 10 })
  await migrate(pool)
  subject = {
    inbox: pgInbox(pool),
    runtime: systemRuntime,
    pass: (ms) => passTime(pool, 'onceward', ms),
    replay: async ({ id }) => void (await deadLetters(pool).replay(id)),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
})
afterAll(() => pool.end())

const quiet = (): Promise<unknown> =>
  until(async () => {
    const { rows } = await pool.query<{ open: string }>(
      `select count(*) as open from pg_stat_activity
       where datname = current_database() and state like 'idle in transaction%'`,
    )
    return rows[0]?.open === '0'
  })

// Of the four stores whose statements are compared, a commit plays one.
describe('the inbox of Postgres', turnOf(0, { of: 4 }), () => {
  inboxModel('pgInbox', () => subject, { runs: 40, steps: 30, quiet })
})
