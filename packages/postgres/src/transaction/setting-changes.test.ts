import { expect, it } from 'vitest'
import { mayChangeSettings } from './setting-changes.ts'

it.each([
  "set local app.tenant = 'a'",
  'SET ROLE tenant',
  "/* note */ set app.tenant to 'a'",
  '-- note\nset app.tenant = 1',
  'select 1; set role x',
  'reset all',
  'discard all',
  'set session authorization x',
  "select pg_catalog.set_config('app.tenant', $1, true)",
  'select "set_config"($1, $2, true)',
  'select Set_Config/* */($1, $2, true)',
  "do $$ begin perform set_config('a.b', 'c', true); end $$",
  "select '\\''; set role x; --'",
])('changes settings: %s', (text) => {
  expect(mayChangeSettings(text)).toBe(true)
})

// Red when most handlers look as if they changed settings: each event of a batch would get its own transaction.
it.each([
  '',
  ';',
  'insert into charges (id, cents) values ($1, $2) on conflict (id) do nothing',
  'update charges\nset cents = cents + $1 where id in ($2, $3)',
  'select reset, do_it from charges',
  'insert into notes (text) values (\'set role x; select set_config("a")\')',
  'insert into notes (text) values ($$ select set_config(1) $$) -- set_config(1)',
  'savepoint a',
  'select become($1)',
])('changes no settings: %s', (text) => {
  expect(mayChangeSettings(text)).toBe(false)
})
