import { describe, expect, it } from 'vitest'
import { type TransactionControl, transactionControls } from './transaction-control.ts'

const REFUSED = [
  'commit',
  'COMMIT;',
  '  \n\tCommit work and chain',
  'end',
  'END TRANSACTION',
  'abort',
  'begin',
  'begin isolation level serializable',
  'start transaction',
  "prepare transaction 'x'",
  "commit prepared 'x'",
  "rollback prepared 'x'",
  'rollback',
  'rollback work',
  'rollback and chain',
  'select 1; commit',
  'select 1;;; rollback; select 2',
  '-- note\ncommit',
  '-- note\rcommit',
  '/* a /* nested */ comment */ commit',
  '/**/commit/**/',
  "select 'it''s; fine'; commit",
  "select e'it\\'s'; commit",
  'select $$ ; $$; commit',
  'select $a$ $$ $a$; commit',
  'select 1 as a$b; commit -- $b',
  'select "odd;""name"; commit',
  // Ends the transaction only where standard_conforming_strings is on.
  "select '\\'; commit --'",
  // … and this one only where it is off.
  "select '\\''; commit; --'",
  // Only after the word E of its own does \\ escape.
  "select 'a' like 'b' escape'\\'; commit; --'",
  "select date'\\'; commit; --'",
  'rollback to savepoint a; commit',
  'insert into t values ($1); commit',
]

const ALLOWED = [
  'select 1',
  'savepoint a',
  'release savepoint a',
  'release a',
  'rollback to a',
  'rollback to savepoint a',
  'ROLLBACK WORK TO SAVEPOINT a',
  'rollback transaction to a; select 1',
  'prepare q as select 1',
  "select case when true then 1 else 2 end, 'commit'",
  'select "commit" from t',
  "insert into log values ('; commit; ')",
  'select $x$; commit; $x$',
  'select 1 -- ; commit',
  'select 1 /* ; commit */',
  'select 1 /* /* */ ; commit */',
  'select 1 as "a; commit; b"',
  "select E'it\\'s; commit; '",
  'select $$ ; commit',
  'update jobs set start = now(), "end" = null where begin_at < $1',
  'do $$ begin perform 1; end $$',
  'select commit_at from t; select end_at from t',
  '',
]

describe('transaction control', () => {
  it.each(REFUSED)('is found in %j', (text) => {
    expect(transactionControls(text)).not.toEqual([])
  })

  it.each(ALLOWED)('is not found in %j', (text) => {
    expect(transactionControls(text)).toEqual([])
  })

  it('is reported with the place and the first words of its statement', () => {
    const [found] = transactionControls('select 1; /* x */ Start Transaction -- now')
    expect(found).toMatchObject({ words: 'start transaction', start: 18, end: 35, isAlone: false })
  })

  type Kinds = readonly [text: string, kinds: readonly Partial<TransactionControl>[]]

  it.each<Kinds>([
    ['begin', [{ kind: 'begin', readOnly: false, isolated: false, isAlone: true }]],
    ['BEGIN WORK;', [{ kind: 'begin', isAlone: true }]],
    ['start transaction read only, deferrable', [{ kind: 'begin', readOnly: true }]],
    ['begin read only read write', [{ kind: 'begin', readOnly: false }]],
    ['begin isolation level read committed', [{ kind: 'begin', isolated: true }]],
    ['begin transaction not deferrable', [{ kind: 'begin', isolated: false }]],
    ['begin quietly', [{ kind: 'other' }]],
    ['start', [{ kind: 'other' }]],
    ['commit work', [{ kind: 'commit' }]],
    ['end and no chain', [{ kind: 'commit' }]],
    ['commit and chain', [{ kind: 'other' }]],
    ["commit prepared 'x'", [{ kind: 'other' }]],
    ['abort transaction', [{ kind: 'rollback' }]],
    ['rollback and chain', [{ kind: 'other' }]],
    ['begin; select 1; commit', [{ kind: 'begin', isAlone: false }, { kind: 'commit' }]],
    ['savepoint onceward_nested_1', [{ kind: 'own-name' }]],
    ['RELEASE "onceward_nested_1"', [{ kind: 'own-name' }]],
    // Whether the text ends a transaction depends on a setting of the session.
    ["begin; select '\\'; commit --'", [{ kind: 'other' }, { kind: 'other' }, { kind: 'other' }]],
    [
      'create function f() returns int begin atomic select 1; select 2; end; commit',
      [{ kind: 'other' }, { kind: 'other' }],
    ],
  ])('has a kind: %j', (text, kinds) => {
    expect(transactionControls(text)).toMatchObject(kinds)
  })

  // Red when one expression reads a string or a name: it overflows the stack after some megabytes, and the statement of
  // the handler threw a RangeError before it was sent.
  it.each([
    ['a string', (long: string) => `'${long}'`],
    ['a string with doubled quotes', (long: string) => `'${long.replaceAll('d', "''")}'`],
    ['a string with escapes', (long: string) => `E'${long.replaceAll('d', '\\n')}'`],
    ['a name', (long: string) => `"${long}"`],
  ])('is found behind %s of many megabytes, and not inside', (_name, quoted) => {
    const text = `insert into log values (${quoted('; end '.repeat(2_000_000))})`
    expect(transactionControls(`${text}; commit`)).toMatchObject([{ words: 'commit' }])
  })
})
