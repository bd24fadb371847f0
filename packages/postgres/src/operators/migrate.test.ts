import { ConfigurationError, StoreUnavailableError } from '@onceward/core'
import { describe, expect, it, test } from 'vitest'
import type { PoolLike } from '../client.ts'
import { SCHEMA_VERSION } from '../inbox/schema-version.ts'
import { MIGRATIONS } from '../sql/index.ts'
import { type MigrateOptions, migrate, migrationSql } from './migrate.ts'

const NEW = { namespace: null, migrations: null }
const THERE = { namespace: 'onceward', migrations: 'onceward.migrations' }
const coded = (code: string, text = code): Error => Object.assign(new Error(text), { code })

interface Given {
  readonly encoding?: string
  /** What `version()` answers. */
  readonly server?: string
  readonly tables?: Readonly<Record<keyof typeof NEW, string | null>>
  readonly version?: number
  readonly readableFrom?: number
  readonly kept?: 'p' | 'u'
  /** Statements that begin so fail. */
  readonly fails?: readonly [string, Error]
}

/** The tables of a database, as far as a migration reads them. */
function tablesOf(given: Given = {}) {
  const { encoding = 'UTF8', version = 0, kept = 'p', fails } = given
  const tables = given.tables ?? (version === 0 ? NEW : THERE)
  const readableFrom = String(given.readableFrom ?? version)
  const sent: (readonly [string, ...unknown[]])[] = []
  const told: readonly (readonly [RegExp, object])[] = [
    [
      /version\(\) as version/,
      { version: given.server ?? 'PostgreSQL 15.8 on x86_64-pc-linux-gnu' },
    ],
    [/'server_encoding'/, { encoding }],
    [/to_regnamespace/, tables],
    [/readable_from\), 0/, { version: String(version), readable_from: readableFrom }],
    [/max\(version\)/, { version: String(version), readable_from: readableFrom }],
    [/relpersistence/, { kept }],
  ]
  const query = async (text: string, values: readonly unknown[] = []) => {
    sent.push([text, ...values])
    if (fails !== undefined && text.startsWith(fails[0])) throw fails[1]
    const row = told.find(([pattern]) => pattern.test(text))?.[1] as Record<string, unknown>
    return { rows: row === undefined ? [] : [row], rowCount: 1 }
  }
  const pool: PoolLike = { connect: async () => ({ query, release: () => undefined }) }
  /** Statements that begin so. */
  const those = (beginning: string) => sent.filter(([text]) => text.startsWith(beginning))
  return { pool, sent, those }
}

const OTHERS = [
  ['CockroachDB CCL v25.2.1 (x86_64-pc-linux-gnu, built 2025/06/04)', 'CockroachDB'],
  ['PostgreSQL 15.2-YB-2025.1.0.0-b0 on x86_64-pc-linux-gnu, compiled by clang', 'YugabyteDB'],
  ['PostgreSQL 16 (Aurora DSQL)', 'Aurora DSQL'],
] as const

describe('migrate', () => {
  it.each(OTHERS)('refuses %s by name before anything else', async (server, name) => {
    const { pool, sent } = tablesOf({ server })
    await expect(migrate(pool)).rejects.toThrow(ConfigurationError)
    await expect(migrate(pool)).rejects.toThrow(`The server is ${name}`)
    expect(sent.filter(([text]) => /begin|advisory|create/.test(text))).toEqual([])
  })

  it.each<[MigrateOptions['leases'], 'p' | 'u', readonly string[]]>([
    [undefined, 'p', []],
    [undefined, 'u', []],
    ['logged', 'p', []],
    ['unlogged', 'u', []],
    ['logged', 'u', ['alter table "onceward".leases set logged']],
    ['unlogged', 'p', ['alter table "onceward".leases set unlogged']],
  ])('makes leases %s of %s only if that changes them', async (leases, kept, changes) => {
    const { pool, sent, those } = tablesOf({ version: SCHEMA_VERSION, kept })
    await migrate(pool, { leases })
    expect(those('alter table').map(([text]) => text)).toEqual(changes)
    const asked = sent.filter(([text]) => text.includes('relpersistence'))
    expect(asked.map(([, table]) => table)).toEqual(
      leases === undefined ? [] : ['"onceward".leases'],
    )
  })

  it('refuses a database whose texts it cannot store, before it creates anything', async () => {
    const { pool, those } = tablesOf({ encoding: 'LATIN1' })
    await expect(migrate(pool)).rejects.toThrow(/encoding UTF8, got LATIN1/)
    expect(those('create')).toEqual([])
  })
})

const NOT_ALLOWED = coded('42501', 'permission denied')
test.each<[string, Error, new (...args: never) => Error, RegExp]>([
  ['a table is held', coded('55P03'), StoreUnavailableError, /held a table in schema "onceward"/],
  ['the server is a standby', coded('25006'), StoreUnavailableError, /connect to the primary/],
  [
    'it is one that names its mode',
    coded('0A000'),
    StoreUnavailableError,
    /connect to the primary/,
  ],
  [
    'the role may not',
    NOT_ALLOWED,
    ConfigurationError,
    /\(permission denied\): run it as the owner/,
  ],
  ['a table is in the way', coded('42P07', 'already exists'), Error, /^already exists$/],
])('it says what to do when %s', async (_what, error, type, message) => {
  const migrating = migrate(tablesOf({ fails: ['create schema', error] }).pool)
  await expect(migrating).rejects.toThrow(message)
  await expect(migrating).rejects.toBeInstanceOf(type)
  if (type !== Error) await expect(migrating).rejects.toHaveProperty('cause', error)
  else await expect(migrating).rejects.toBe(error)
})

describe('the SQL for other tools', () => {
  it('creates the schema and records each migration', () => {
    const all = migrationSql()
    expect(all.map(({ name, version }) => ({ name, version }))).toEqual(
      MIGRATIONS.map(({ name, version }) => ({ name, version })),
    )
    const [first, ...rest] = all.map(({ sql }) => sql)
    expect(first).toMatch(
      /^create schema if not exists "onceward";\ncreate table "onceward"\.migrations \([^)]*\(\)\n {2}\);\n--/,
    )
    for (const sql of rest) expect(sql).toMatch(/^--/)
    for (const { name, readableFrom = null, sql, version } of all) {
      expect(sql).toContain(
        `;\n\ninsert into "onceward".migrations (version, name, readable_from) values (${version}, '${name}', ${readableFrom});\n`,
      )
      expect(sql).not.toMatch(/:"schema"|undefined/)
    }
  })

  it('has only what follows a version', () => {
    const [, ...rest] = migrationSql('audit')
    expect(migrationSql('audit', 1)).toEqual(rest)
    expect(migrationSql('audit', SCHEMA_VERSION)).toEqual([])
  })

  // Red before: the first `$$` of the name ended the bodies of the functions.
  it.each([
    ['audit', '$$'],
    ['pay$1$', '$$'],
    ['pay$$load', '$o$'],
    ['pay$$o$oo$', '$ooo$'],
  ])('puts the functions of the schema %s between %s', (schema, quote) => {
    const all = migrationSql(schema)
      .map(({ sql }) => sql)
      .join('\n')
    const begun = [...all.matchAll(/\bas (\$\S+)\s/g)].map(([, each]) => each)
    expect(new Set(begun)).toEqual(new Set([quote]))
    // Each begins and ends one body, and none is in the name.
    expect(all.split(quote)).toHaveLength(1 + 2 * begun.length)
    expect(all).toContain(`"${schema}".processed_events`)
  })
})

test('migrations are numbered from one, and the last number is SCHEMA_VERSION', () => {
  const versions = MIGRATIONS.map(({ version }) => version)
  expect(versions).toEqual(MIGRATIONS.map((_, index) => index + 1))
  expect(versions.at(-1)).toBe(SCHEMA_VERSION)
})
