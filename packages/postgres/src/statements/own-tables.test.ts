import { expect, test } from 'vitest'
import { MIGRATIONS } from '../sql/index.ts'
import { changedTables, OWN_TABLES } from './own-tables.ts'

const CREATES = /^create table :"schema"\.(\w+)/gm
const MAY_BE_LOST = ['leases', 'outbox_leases', 'workers', 'audit']
const MADE = MIGRATIONS.flatMap(({ sql }) => [...sql.matchAll(CREATES)].map(([, name]) => name))

// Red when a new table is forgotten here: its size would not be told.
test('the tables of onceward are those that migrations make, and the list of the migrations', () => {
  const listed = OWN_TABLES.split(', ')
  expect(listed.toSorted()).toEqual([...MADE, 'migrations'].map((name) => `'${name}'`).toSorted())
})

// Red when a new table is forgotten here: guards would start on one that a crash empties.
test('guards look at all tables but those that may be lost', () => {
  const [, list] = /relname in \((.*?)\)/.exec(changedTables('s')) ?? []
  const reliedOn = MADE.filter((name) => name === undefined || !MAY_BE_LOST.includes(name))
  expect(list?.split(', ').toSorted()).toEqual(reliedOn.map((name) => `'${name}'`).toSorted())
})
