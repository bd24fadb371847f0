import { heapBytes } from '@onceward/testing/heap'
import { describe, expect, it } from 'vitest'
import { mayChangeSettings } from './setting-changes.ts'

const CHANGES = [
  "set local app.tenant = 'a'",
  'SET ROLE tenant',
  "/* note */ set app.tenant to 'a'",
  '-- note\nset app.tenant = 1',
  'select 1; set role x',
  'reset all',
  'reset role',
  'discard all',
  'set session authorization x',
  "select set_config('app.tenant', $1, true)",
  "select pg_catalog.set_config('app.tenant', $1, true)",
  'select "set_config"($1, $2, true)',
  'select Set_Config ($1, $2, true)',
  'select set_config/* */($1, $2, true)',
  'select app.become($1)',
  'select become($1)',
  'select * from become($1) as t',
  'call become($1)',
  "do $$ begin perform set_config('a.b', 'c', true); end $$",
  'execute prepared',
  'with x as (select become($1)) select * from x',
  'insert into charges select become($1)',
  "insert into charges values (become('a'))",
  "update charges set name = become('a')",
  "select E'\\'' || become('a')",
  "select '\\' || become('a') || '",
  "select '\\''; set role x; --'",
  'select public.now()',
  `select '${'x'.repeat(50_000)}'`,
]

const PLAIN = [
  '',
  ';',
  'insert into charges values ($1)',
  'insert into charges (id, cents) values ($1, $2) on conflict (id) do nothing',
  'insert into billing.charges (id) values ($1) returning id',
  'insert into "Billing"."Charges" (id) values ($1)',
  'update charges set cents = cents + $1 where id in ($2, $3)',
  'delete from charges where id = any($1)',
  'select count(*), pg_catalog.now() from charges where (cents > 1 and id = $1)',
  'with fresh (id) as (select gen_random_uuid()) insert into charges (id) select id from fresh',
  'select * from json_to_recordset($1) as r(id uuid, cents numeric(10, 2))',
  'insert into notes (text) values (\'set role x; select set_config("a")\')',
  'insert into notes (text) values ($$ select set_config(1) $$) -- set_config(1)',
  'savepoint a',
  'rollback to a',
  'select 1 / 0',
  '(select 1) union all (select 2)',
  'select ((1))',
  'select 1;',
]

describe('a text that may change settings', () => {
  it.each(CHANGES)('is one: %s', (text) => {
    expect(mayChangeSettings(text)).toBe(true)
    expect(mayChangeSettings(text)).toBe(true)
  })

  // Red when most handlers look as if they changed settings: each event of a batch would get its own transaction.
  it.each(PLAIN)('is none: %s', (text) => {
    expect(mayChangeSettings(text)).toBe(false)
  })

  // Red when only the number of remembered texts is bounded: handlers that put values into long texts cost 100 MB.
  it('takes little memory, however long the texts are', () => {
    const before = heapBytes()
    for (let n = 0; n < 900; n += 1) {
      mayChangeSettings(`insert into notes (text) values ('${n}${'x'.repeat(49_000)}')`)
    }
    expect(heapBytes() - before).toBeLessThan(10_000_000)
  })
})
