import type { Inbox } from '@onceward/core'
import { type InboxSession, systemRuntime } from '@onceward/core/ports'
import { database, turnOf } from '@onceward/testing'
import { inboxConformance } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe } from 'vitest'
import { passTime } from './fixtures/inbox.ts'
import { ORMS } from './fixtures/orms/index.ts'
import type { ConnectedOrm } from './fixtures/orms/orm-under-test.ts'
import { deadLetters } from './operators/dead-letters.ts'
import { migrate } from './operators/migrate.ts'
import { quotedSchema } from './statements/schema-name.ts'

let url: string
let pool: pg.Pool
let schemas = 0

beforeAll(async () => {
  url = (await database()).url
  pool = new pg.Pool({ connectionString: url, max: 3 })
})
afterAll(() => pool.end())

/** The suite closes no session. */
const sessions: InboxSession<unknown>[] = []
afterEach(async () => {
  await Promise.all(sessions.splice(0).map((session) => session.close?.()))
})

function closing(inbox: Inbox<unknown>): Inbox<unknown> {
  return {
    open: async (registration) => {
      const session = await inbox.open(registration)
      sessions.push(session)
      return session
    },
  }
}

for (const [index, { name, connect }] of ORMS.entries()) {
  describe(name, turnOf(index, { of: ORMS.length }), () => {
    let orm: ConnectedOrm
    beforeAll(async () => {
      orm = await connect(url, 10)
    })
    afterAll(() => orm.close())

    const under = async () => {
      schemas += 1
      const schema = `inbox "${schemas}"`
      await migrate(pool, { schema })
      return {
        inbox: closing(orm.inbox({ schema, pool })),
        runtime: systemRuntime,
        pass: (ms: number) => passTime(pool, quotedSchema(schema), ms),
        replay: async ({ id }: { readonly id: string }) => {
          await deadLetters(pool, { schema }).replay(id)
        },
        [Symbol.asyncDispose]: () => Promise.resolve(),
      }
    }
    inboxConformance(name, under, { storesBytes: true, countsMessages: true })
  })
}
