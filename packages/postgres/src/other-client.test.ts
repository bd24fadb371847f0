import { drizzle } from 'drizzle-orm/node-postgres'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import postgres from 'postgres'
import { expect, test } from 'vitest'
import { deadLetters, forgetHistory, migrate, postgresLeases } from './index.ts'
import { kyselyInbox } from './kysely.ts'
import { pgInbox } from './pg.ts'

const SECRET = 'hunter2'
const URL_TEXT = `postgres://app:${SECRET}@db.internal:5432/app`
const pool = { connect: () => undefined, query: () => undefined, options: { password: SECRET } }

const client = new pg.Client({ connectionString: URL_TEXT })

// Red before: a TypeError at the first event, or a guard that never found its store.
test.each<[string, (client: never) => unknown, unknown, string]>([
  ['pgInbox', pgInbox, URL_TEXT, 'Make a client first'],
  ['pgInbox', pgInbox, client, 'A pool of pg, not one client'],
  ['postgresLeases', postgresLeases, client, 'A pool of pg, not one client'],
  ['kyselyInbox', kyselyInbox, pool, 'A pool of pg, not one client, goes into `pgInbox(pool)`'],
  ['pgInbox', pgInbox, drizzle(new pg.Pool({ connectionString: URL_TEXT })), '`drizzleInbox(db'],
  ['pgInbox', pgInbox, postgres(URL_TEXT), '`postgresJsInbox(sql)`'],
  ['postgresLeases', postgresLeases, undefined, 'Give the client itself.'],
])('%s says what to write for another client, and shows no secret', (_, make, client, advice) => {
  let error: unknown
  try {
    make(client as never)
  } catch (thrown) {
    error = thrown
  }
  expect(error).toMatchObject({ code: 'ONCEWARD_CONFIGURATION' })
  expect(String(error)).toContain(advice)
  expect(String(error)).not.toContain(SECRET)
})

// Red before: a StoreUnavailableError, as if the database were down, and deadLetters took all of them.
test.each<[string, (pool: never) => unknown]>([
  ['migrate', migrate],
  ['deadLetters', deadLetters],
  ['forgetHistory', forgetHistory],
])('%s asks for a pool instead of another value, and shows no secret', async (_, call) => {
  for (const value of [URL_TEXT, { connectionString: URL_TEXT }, undefined]) {
    const error: unknown = await Promise.resolve()
      .then(() => call(value as never))
      .catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'ONCEWARD_CONFIGURATION' })
    expect(String(error)).toContain('new Pool({ connectionString })')
    expect(String(error)).not.toContain(SECRET)
  }
})

// Red before: the guard committed the user's transaction, so that a later rollback undid nothing.
test('kyselyInbox refuses a transaction of Kysely', async () => {
  const query = async () => ({ command: 'SELECT', rowCount: 0, rows: [] })
  const release = (): void => undefined
  const ownPool = { connect: async () => ({ query, release }), end: async () => undefined }
  const db = new Kysely({ dialect: new PostgresDialect({ pool: ownPool as never }) })
  const message = 'Expected kyselyInbox to get a Kysely instance, got one of its transactions'
  await db.transaction().execute(async (trx) => {
    expect(() => kyselyInbox(trx)).toThrow(message)
  })
  expect(() => kyselyInbox(db)).not.toThrow()
})
