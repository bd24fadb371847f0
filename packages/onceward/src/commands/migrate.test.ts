import { migrationSql, SCHEMA_VERSION } from '@onceward/postgres/operator'
import { describe, expect, test } from 'vitest'
import { commanded } from '../fixtures/commanded.ts'
import type { Answers } from '../fixtures/scripted-database.ts'
import { migrateCommand } from './migrate.ts'

const ran = (args: readonly string[], answers: Answers = []) =>
  commanded(migrateCommand, args, answers)
const NAMES = migrationSql('onceward').map(({ name }) => name)
const NEXT = SCHEMA_VERSION + 1

/** A server with tables of this version, as `migrate` asks for them; 0: none. */
const serverOf = (version: number, kept = 'p'): Answers => [
  ['server_encoding', [{ encoding: 'UTF8' }]],
  ['to_regnamespace', [{ namespace: 'onceward', migrations: 'onceward.migrations' }]],
  ['readable_from', [{ version: String(version), readable_from: String(version) }]],
  ['relpersistence', [{ kept }]],
]
/** The same, as `--check` asks. */
const checked = (version: number, readableFrom = version): Answers => [
  ['to_regclass($1)', [{ table: 'onceward.migrations' }]],
  ['as "readableFrom"', [{ version, readableFrom }]],
]

test('without tables, all of them are made and named', async () => {
  const { code, stdout } = await ran([], serverOf(0))
  expect(code).toBe(0)
  expect(stdout).toBe(`Applied ${NAMES.join(', ')}: the tables have version ${SCHEMA_VERSION}.\n`)
})

test('current tables are left as they are', async () => {
  const { asked, code, stdout } = await ran(['--schema', 'shop'], serverOf(SCHEMA_VERSION))
  expect(code).toBe(0)
  expect(stdout).toBe(`The tables in "shop" are current (version ${SCHEMA_VERSION}).\n`)
  expect(asked.some(({ sql }) => sql.startsWith('alter table'))).toBe(false)
})

test('--leases changes the table of leases of that schema', async () => {
  const args = ['--leases', 'unlogged', '--schema', 'shop']
  const { asked, code } = await ran(args, serverOf(SCHEMA_VERSION))
  expect(code).toBe(0)
  expect(asked.map(({ sql }) => sql)).toContain('alter table "shop".leases set unlogged')
  const { failure } = await ran(['--leases', 'both'], serverOf(SCHEMA_VERSION))
  expect(failure).toMatchObject({ message: expect.stringContaining('Allowed choices') })
})

describe('--check changes nothing, and says', () => {
  test.each<readonly [Answers, number, string]>([
    [[], 1, 'There are no tables: `npx onceward migrate` would create them.'],
    [
      checked(1),
      1,
      `The tables have version 1: \`npx onceward migrate\` would apply ${NAMES.slice(1).join(', ')}.`,
    ],
    [checked(SCHEMA_VERSION), 0, `The tables are current (version ${SCHEMA_VERSION}).`],
    [
      checked(NEXT, SCHEMA_VERSION),
      0,
      `The tables have version ${NEXT} of a newer release. This release can use them.`,
    ],
    [
      checked(NEXT),
      1,
      `The tables have version ${NEXT} of a newer release, which this one cannot use: update \`onceward\`.`,
    ],
  ])('%# with code %i: %s', async (answers, code, text) => {
    const answered = await ran(['--check'], answers)
    expect(answered).toMatchObject({ code, stdout: `${text}\n` })
    expect(answered.asked[0]?.sql).toContain('read only')
  })
})

describe('--print', () => {
  test('prints every migration in a transaction of its own, without a database', async () => {
    const { asked, code, stdout } = await ran(['--print'])
    expect(code).toBe(0)
    expect(asked).toEqual([])
    expect(stdout).toBe(
      `${migrationSql('onceward')
        .map(({ name, sql }) => `-- onceward ${name}\nbegin;\n\n${sql}\ncommit;`)
        .join('\n\n')}\n`,
    )
  })

  test('prints only what follows a version, for its schema, also as JSON', async () => {
    const { stdout } = await ran(['--print', '--after', '1', '--schema', 'shop', '--json'])
    expect(JSON.parse(stdout)).toEqual(JSON.parse(JSON.stringify(migrationSql('shop', 1))))
  })
})

test.each([
  [['--print', '--check'], 'Give --print or --check, not both.'],
  [['--after', '0'], '--after is for --print.'],
  [['--check', '--after', '1'], '--after is for --print.'],
  [['--print', '--after', 'one'], 'Expected --after to be a whole number'],
  [['--print', '--leases', 'logged'], '--leases changes the table'],
  [['--check', '--leases', 'logged'], '--leases changes the table'],
])('%j is refused before anything is asked', async (args, message) => {
  const { asked, code, failure } = await ran(args, serverOf(0))
  expect({ asked, code }).toEqual({ asked: [], code: undefined })
  expect(failure).toMatchObject({ exitCode: 2, message: expect.stringContaining(message) })
})
