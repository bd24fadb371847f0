import { expect, it } from 'vitest'
import { NestedTransactions } from './nested-transactions.ts'

const idle = (): boolean => false

function open(depth: number): NestedTransactions {
  const nested = new NestedTransactions()
  for (let at = 0; at < depth; at += 1) nested.map('begin', idle)
  return nested
}

it.each([
  [0, 'begin', 'savepoint onceward_nested_1'],
  [1, 'BEGIN;', 'savepoint onceward_nested_2;'],
  [0, 'start transaction read only', 'savepoint onceward_nested_1; set transaction read only'],
  [1, 'commit', 'release savepoint onceward_nested_1'],
  [2, 'end /* of it */', 'release savepoint onceward_nested_2 /* of it */'],
  [1, 'rollback', 'rollback to savepoint onceward_nested_1; release savepoint onceward_nested_1'],
])('at depth %i maps %j', (depth, text, mapped) => {
  expect(open(depth).map(text, idle)).toMatchObject({ text: mapped, isAlone: true })
})

it('maps each statement of a text, and nothing in its strings', () => {
  const nested = open(0)
  expect(
    nested.map("begin; insert into t values ('; commit'); commit; begin; rollback -- x", idle),
  ).toMatchObject({
    text: "savepoint onceward_nested_1; insert into t values ('; commit'); release savepoint onceward_nested_1; savepoint onceward_nested_1; rollback to savepoint onceward_nested_1; release savepoint onceward_nested_1 -- x",
    isAlone: false,
  })
  expect(nested.leftOpen(undefined)).toBeUndefined()
})

it.each([
  [0, 'commit', 'may not send `commit`'],
  [0, 'begin; commit; rollback', 'may not send `rollback`'],
  [1, 'commit and chain', 'may not send `commit and`'],
  [1, "prepare transaction 'x'", 'may not send `prepare transaction`'],
  [0, 'begin isolation level serializable', 'set the option `isolation` of the inbox'],
  [1, 'savepoint onceward_nested_7', 'Choose another name'],
])('at depth %i refuses %j and keeps the depth', (depth, text, message) => {
  const nested = open(depth)
  expect(nested.map(text, idle)).toMatchObject({ message: expect.stringContaining(message) })
  expect(nested.map('begin', idle)).toMatchObject({
    text: `savepoint onceward_nested_${depth + 1}`,
  })
})

// Red when two handlers of one client that run side by side share a savepoint: the rollback of one undoes the other's work.
it('refuses a transaction that begins beside a running statement', () => {
  expect(open(1).map('begin', () => true)).toMatchObject({
    message: expect.stringContaining('one after the other'),
  })
})

it('is as deep as before when a statement fails, and as deep as it may be when one of several fails', () => {
  const nested = open(1)
  for (const text of ['begin', 'commit', 'rollback']) {
    const mapped = nested.map(text, idle)
    if (mapped instanceof Error || mapped === undefined) throw new Error('expected a mapped text')
    mapped.failed()
    expect(nested.map('savepoint a; commit', idle)).toMatchObject({
      text: 'savepoint a; release savepoint onceward_nested_1',
    })
    nested.map('begin', idle)
  }
  const mapped = nested.map('begin; select 1 / 0; commit', idle)
  if (mapped instanceof Error || mapped === undefined) throw new Error('expected a mapped text')
  mapped.failed()
  expect(nested.map('rollback', idle)).toMatchObject({
    text: expect.stringContaining('rollback to savepoint onceward_nested_2'),
  })
})

it('knows that a transaction was left open by a handler that returned', () => {
  expect(open(1).leftOpen(undefined)).toMatchObject({
    message: expect.stringContaining('Send `commit` or `rollback` for each `begin`'),
  })
  expect(open(1).leftOpen(new Error('declined'))).toBeUndefined()
})
