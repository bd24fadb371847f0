import { expect, test } from 'vitest'
import { postgresLeases } from './index.ts'
import { kyselyInbox } from './kysely.ts'
import { pgInbox } from './pg.ts'

const SECRET = 'hunter2'
const URL_TEXT = `postgres://app:${SECRET}@db.internal:5432/app`
const pool = { connect: () => undefined, query: () => undefined, options: { password: SECRET } }

// Red before: a TypeError at the first event, or a guard that never found its store.
test.each<[string, (client: never) => unknown, unknown, string]>([
  ['pgInbox', pgInbox, URL_TEXT, 'Write `pgInbox(new Pool({ connectionString }))`.'],
  ['kyselyInbox', kyselyInbox, pool, 'Write `pgInbox(pool)`'],
  ['kyselyInbox', kyselyInbox, URL_TEXT, 'Write `pgInbox(new Pool({ connectionString }))`'],
  ['postgresLeases', postgresLeases, URL_TEXT, 'Write `postgresLeases(new Pool('],
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
