import type { Inbox } from '@onceward/core'
import { systemRuntime } from '@onceward/core/ports'
import { database, turnOf } from '@onceward/testing'
import { type InboxUnderTest, inboxConformance } from '@onceward/testing/conformance'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, describe } from 'vitest'
import { passTime } from './fixtures/inbox.ts'
import { type LeastPrivilege, leastPrivilege } from './fixtures/least-privilege.ts'
import { deadLetters } from './index.ts'
import { kyselyInbox } from './kysely.ts'
import { pgInbox } from './pg.ts'
import { quotedSchema } from './statements/schema-name.ts'

let admin: pg.Pool
let roles: LeastPrivilege
let db: Kysely<unknown>
let schemas = 0

beforeAll(async () => {
  const { url } = await database()
  admin = new pg.Pool({ connectionString: url, max: 10 })
  roles = await leastPrivilege(admin, url)
  db = new Kysely({ dialect: new PostgresDialect({ pool: roles.billing }) })
})
afterAll(async () => {
  await roles[Symbol.asyncDispose]()
  await admin.end()
})

// A guard may do all that it does, and an operator replays: whatever column a later version adds.
async function underRoles<Tx>(
  makeInbox: (options: { readonly schema: string }) => Inbox<Tx>,
): Promise<InboxUnderTest<Tx>> {
  schemas += 1
  const schema = `roles "${schemas}"`
  await roles.apply(schema)
  return {
    inbox: makeInbox({ schema }),
    runtime: systemRuntime,
    pass: (ms) => passTime(admin, quotedSchema(schema), ms),
    replay: async ({ id }) => {
      await deadLetters(roles.operator, { schema }).replay(id)
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
}

const bytes = { storesBytes: true }
describe('with pg', turnOf(0, { of: 2 }), () => {
  inboxConformance(
    'pgInbox under the role of consumers',
    () => underRoles((options) => pgInbox(roles.billing, options)),
    bytes,
  )
})
describe('with Kysely', turnOf(1, { of: 2 }), () => {
  inboxConformance(
    'kyselyInbox under the role of consumers',
    () => underRoles((options) => kyselyInbox(db, options)),
    bytes,
  )
})
