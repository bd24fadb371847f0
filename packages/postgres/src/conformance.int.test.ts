import type { Inbox } from '@onceward/core'
import { type InboxSession, systemRuntime } from '@onceward/core/ports'
import { database, turnOf } from '@onceward/testing'
import { type InboxUnderTest, inboxConformance } from '@onceward/testing/conformance'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe } from 'vitest'
import { passTime } from './fixtures/inbox.ts'
import { kyselyInbox } from './kysely.ts'
import { deadLetters } from './operators/dead-letters.ts'
import { migrate } from './operators/migrate.ts'
import { pgInbox } from './pg.ts'
import { quotedSchema } from './statements/schema-name.ts'

let url: string
let pool: pg.Pool
let db: Kysely<unknown>
let schemas = 0

beforeAll(async () => {
  url = (await database()).url
  pool = new pg.Pool({ connectionString: url, max: 10 })
  db = new Kysely({ dialect: new PostgresDialect({ pool }) })
})
afterAll(() => pool.end())

/** The suite closes no session. */
const sessions: InboxSession<pg.PoolClient>[] = []
afterEach(async () => {
  await Promise.all(sessions.splice(0).map((session) => session.close?.()))
})

function ownPool(options: { readonly schema: string }): Inbox<pg.PoolClient> {
  const inbox = pgInbox({ connectionString: url, max: 10 }, options)
  return {
    open: async (registration) => {
      const session = await inbox.open(registration)
      sessions.push(session)
      return session
    },
  }
}

/** Each test has a schema of its own, with a name that must be quoted. */
async function migrated<Tx>(
  makeInbox: (options: { readonly schema: string }) => Inbox<Tx>,
): Promise<InboxUnderTest<Tx>> {
  schemas += 1
  const schema = `inbox "${schemas}"`
  await migrate(pool, { schema })
  return {
    inbox: makeInbox({ schema }),
    runtime: systemRuntime,
    pass: (ms) => passTime(pool, quotedSchema(schema), ms),
    replay: async ({ id }) => {
      await deadLetters(pool, { schema }).replay(id)
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
}

const whole = { storesBytes: true, countsMessages: true }
inboxConformance('pgInbox', () => migrated((options) => pgInbox(pool, options)), whole)
describe('with a pool of its own', turnOf(0, { of: 2 }), () => {
  inboxConformance('pgInbox', () => migrated(ownPool), whole)
})
describe('with Kysely', turnOf(1, { of: 2 }), () => {
  inboxConformance('kyselyInbox', () => migrated((options) => kyselyInbox(db, options)), whole)
})
