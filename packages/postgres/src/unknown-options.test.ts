import { ConfigurationError } from '@onceward/core'
import {
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
} from 'kysely'
import pg from 'pg'
import { afterAll, describe, expect, test } from 'vitest'
import { deadLetters, forgetHistory, migrate, postgresLeases } from './index.ts'
import { kyselyInbox } from './kysely.ts'
import { pgInbox } from './pg.ts'

const pool = new pg.Pool({ max: 10 })
const db = new Kysely<unknown>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (kysely) => new PostgresIntrospector(kysely),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
})
afterAll(() => pool.end())

/** Called as by a program without types. */
const FUNCTIONS: Readonly<Record<string, (options: never) => unknown>> = {
  pgInbox: (options) => pgInbox(pool, options),
  kyselyInbox: (options) => kyselyInbox(db, options),
  postgresLeases: (options) => postgresLeases(pool, options),
  deadLetters: (options) => deadLetters(pool, options),
  migrate: (options) => migrate(pool, options),
  forgetHistory: (options) => forgetHistory(pool, options),
}

async function refusalOf(name: string, options: unknown): Promise<unknown> {
  try {
    return await FUNCTIONS[name]?.(options as never)
  } catch (error) {
    return error
  }
}

const SECRET = 'postgres://app:hunter2@db.internal:5432/app'

describe.each(Object.keys(FUNCTIONS))('%s', (name) => {
  test.each([['shema', 'schema']])('refuses %s and suggests %s', async (unknown, meant) => {
    const error = await refusalOf(name, { [unknown]: 'audit' })
    expect(error).toBeInstanceOf(ConfigurationError)
    expect(error).toHaveProperty(
      'message',
      `${name} does not know "${unknown}", did you mean "${meant}"?`,
    )
  })

  test.each([
    ['a schema that is a connection string', { schema: `${SECRET}?application_name=a-long-name` }],
  ])('refuses %s and does not show it', async (_what, options) => {
    const error = await refusalOf(name, options)
    expect(error).toBeInstanceOf(ConfigurationError)
    expect(String(error)).not.toContain('hunter2')
  })
})

test.each([
  ['pgInbox', 'isolationLevel', 'isolation'],
  ['kyselyInbox', 'isolationlevel', 'isolation'],
  ['migrate', 'lease', 'leases'],
])('%s refuses %s and suggests %s', async (name, unknown, meant) => {
  expect(String(await refusalOf(name, { [unknown]: 1 }))).toContain(`did you mean "${meant}"?`)
})

test('migrate refuses an unknown value of leases', async () => {
  const error = await refusalOf('migrate', { leases: 'logged; drop table x' })
  expect(error).toBeInstanceOf(ConfigurationError)
  expect(String(error)).toContain("Expected `leases` to be 'logged' or 'unlogged'")
})

// Red when they are left to pg, which ignores them: the guard would use the tables of another schema.
test('pgInbox refuses its own options among the settings of a pool', () => {
  const config = { connectionString: SECRET, schema: 'audit', isolation: 'serializable' }
  expect(() => pgInbox(config)).toThrow(
    new ConfigurationError(
      'pgInbox takes `schema`, `isolation` in its second argument, not among the settings of the pool.',
    ),
  )
})
