import { ConfigurationError } from '@onceward/core'
import { expect, test } from 'vitest'
import { createStatements } from './index.ts'
import { identityQuery } from './registration.ts'
import { quotedSchema, schemaLiteral } from './schema-name.ts'

test.each([
  [undefined, '"onceward"', "'onceward'"],
  ['a', '"a"', "'a'"],
  ['é'.repeat(31), `"${'é'.repeat(31)}"`, `'${'é'.repeat(31)}'`],
  ['x'.repeat(63), `"${'x'.repeat(63)}"`, `'${'x'.repeat(63)}'`],
  [`"'; drop table x`, `"""'; drop table x"`, `'"''; drop table x'`],
])('the name %s is quoted', (name, quoted, literal) => {
  expect([quotedSchema(name), schemaLiteral(name)]).toEqual([quoted, literal])
})

// Red when PostgreSQL cuts the name: two schemas would be one.
test.each([
  ['', '0 bytes'],
  ['x'.repeat(64), '64 bytes'],
  ['é'.repeat(32), '64 bytes'],
  ['a\0b', '3 bytes'],
  ['postgres://app:hunter2@db/app', '29 bytes'],
  [7, 'got number'],
  [null, 'got object'],
])('the name %j is refused', (name, said) => {
  const refused = () => quotedSchema(name as never)
  expect(refused).toThrow(ConfigurationError)
  expect(refused).toThrow(said)
  expect(refused).not.toThrow('hunter2')
})

/** Every statement, with where it stands. */
function textsIn(value: unknown, path: readonly string[] = []): readonly [string, string][] {
  if (typeof value === 'string') return [[path.join(' '), value]]
  return Object.entries(value as object).flatMap(([name, each]) => textsIn(each, [...path, name]))
}

const SCHEMA = `my "zebra" it's`
const { schema: quoted, ...statements } = createStatements(SCHEMA)
const TEXTS = textsIn(statements).filter(([name]) => !name.startsWith('bound'))

// Red when a statement uses other tables than those of the schema, or when the name ends a text that it stands in.
test.each(TEXTS)('%s names the schema that is given', (_name, text) => {
  const tokens = text.match(/"(?:[^"]|"")*"|'(?:[^']|'')*'/g) ?? []
  const named = tokens.filter((token) => token.includes('zebra'))
  expect(named).not.toEqual([])
  for (const token of named) {
    if (token.startsWith('"')) expect(token).toBe(quoted)
    else expect(token).toContain(quoted.replaceAll("'", "''"))
  }
  expect(text.replaceAll(/"(?:[^"]|"")*"|'(?:[^']|'')*'/g, '')).not.toMatch(/zebra|undefined/)
})

// One of each file. Red when a file has lost its statements: the test above does not miss them.
test.each([
  ...['register', 'classify', 'fail', 'park', 'refuse', 'startMessages', 'readFigures'],
  ...['bodies event writePart', 'bodies refused writePart', 'trySweepLock', 'claimLeases'],
  ...['dueEvents', 'replayEvents', 'freeEvent'],
])('%s is among them', (name) => {
  expect(TEXTS.map(([each]) => each)).toContain(name)
})

test('the history of commits is named by the statement that guards name it by', () => {
  expect(identityQuery(SCHEMA)).toBe(statements.readIdentity)
})
