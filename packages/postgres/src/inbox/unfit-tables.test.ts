import { ConfigurationError, type Logger } from '@onceward/core'
import { silent } from '@onceward/testing/conformance'
import { expect, test } from 'vitest'
import type { SchemaFacts, TableFacts } from '../statements/table-facts.ts'
import { refuseEncoding, refuseUnfitTables, unfitTables } from './unfit-tables.ts'

const table = (changed: Partial<TableFacts> = {}): TableFacts => ({
  ...{ name: 'settings', kind: 'r', kept: 'p', rules: 0, triggers: [], publications: [] },
  ...changed,
})

const facts = (changed: Partial<SchemaFacts> = {}): SchemaFacts => ({
  ...{ encoding: 'UTF8', replicationRole: 'origin', tables: [table()] },
  ...changed,
})

const SCHEMA = '"my schema"'

/** What is found in tables, each finding with its remedy. */
const foundIn = (...tables: readonly TableFacts[]): readonly string[] =>
  unfitTables(facts({ tables }), SCHEMA).map(
    ({ severity, finding, remedy }) => `${severity}: ${finding} ${remedy}`,
  )

test('nothing is found in tables as `migrate` makes them', () => {
  expect(foundIn(table(), table({ name: 'consumers' }))).toEqual([])
  expect(foundIn()).toEqual([])
})

test.each([
  ['p', 'partitioned'],
  ['f', 'a foreign table'],
  ['v', 'a view'],
  ['m', 'a materialized view'],
  ['S', 'no table'],
])('a relation of kind %s is refused as %s, and its rules are not named', (kind, what) => {
  expect(foundIn(table({ kind, rules: 1 }))).toEqual([
    `error: "my schema".settings is ${what}: batches cannot be claimed in it, and it is not swept. Put an ordinary ` +
      'table with its rows and its primary key in its place.',
  ])
})

test('each change of a table has a finding with the statement that undoes it', () => {
  const changed = table({
    rules: 2,
    kept: 'u',
    publications: ['all', 'a "b"'],
    triggers: ['x', 'y'],
  })
  expect(foundIn(changed)).toEqual([
    'error: "my schema".settings has rules for inserts or updates: PostgreSQL refuses `on conflict` there, and so every ' +
      'claim. Drop them (`drop rule … on "my schema".settings`), or use a trigger after the change.',
    'error: "my schema".settings is unlogged: a crash of PostgreSQL empties it, and then processed events run again. ' +
      'Run `alter table "my schema".settings set logged`.',
    'error: "my schema".settings is published by "all", "a ""b""" without a replica identity: PostgreSQL refuses to ' +
      'change its rows, so a failure cannot be recorded. Run `alter table "my schema".settings replica identity ' +
      'default`, or take the table out of the publication.',
    'warning: "my schema".settings has triggers before the change of a row: x, y. If one returns null, the change is ' +
      'not made, and events are deferred for ever, as `running-elsewhere`. Let them return the row, or make each an ' +
      '`after` trigger.',
  ])
})

/** What a guard logs and answers when it opens there. */
function opening(changed: Partial<SchemaFacts>): {
  readonly lines: readonly unknown[]
  readonly error: unknown
} {
  const lines: unknown[] = []
  const warn = (fields: unknown, text: unknown): void => void lines.push([text, fields])
  const logger = { ...silent, warn } as Logger
  try {
    refuseUnfitTables(facts(changed), SCHEMA, { consumer: 'billing', logger })
    return { lines, error: undefined }
  } catch (error) {
    return { lines, error }
  }
}

test('a guard opens with tables as `migrate` makes them, and logs nothing', () => {
  expect(opening({})).toEqual({ lines: [], error: undefined })
})

test('a guard names every table with which it does not open, a line each', () => {
  const tables = [table({ kept: 'u' }), table({ name: 'consumers', kind: 'v' }), table()]
  const { error, lines } = opening({ tables })
  expect(error).toBeInstanceOf(ConfigurationError)
  expect(String(error).split('\n')).toEqual([
    expect.stringMatching(/settings is unlogged: .* Run `alter table/),
    expect.stringMatching(/consumers is a view: .* Put an ordinary table/),
  ])
  expect(lines).toEqual([])
})

test('a guard opens with triggers, and logs them with what to do', () => {
  const { error, lines } = opening({ tables: [table({ triggers: ['x'] })] })
  expect(error).toBeUndefined()
  const fields = {
    consumer: 'billing',
    finding: expect.stringMatching(/^"my schema"\.settings has triggers .*: x\./),
    remedy: expect.stringMatching(/^Let them return the row/),
  }
  expect(lines).toEqual([['a trigger may suppress changes of onceward', fields]])
})

test('a guard opens for a login whose foreign keys do not act, and logs that', () => {
  expect(opening({ replicationRole: 'replica' })).toEqual({
    error: undefined,
    lines: [
      [
        '`session_replication_role` is replica for this login, so foreign keys do not act: pieces of large messages stay when their event goes',
        { consumer: 'billing', remedy: 'alter role … reset session_replication_role' },
      ],
    ],
  })
})

test('a guard does not open in a database of another encoding', () => {
  expect(opening({ encoding: 'LATIN1' }).error).toBeInstanceOf(ConfigurationError)
})

test('encodings other than UTF8 and SQL_ASCII are refused with the statement that makes another database', () => {
  for (const encoding of ['UTF8', 'SQL_ASCII']) refuseEncoding(encoding)
  for (const encoding of ['LATIN1', 'utf8', '', 'undefined']) {
    expect(() => refuseEncoding(encoding)).toThrow(
      new ConfigurationError(
        `Expected a database with encoding UTF8, got ${encoding}: create one with \`create database … encoding 'UTF8' template template0\`.`,
      ),
    )
  }
})
