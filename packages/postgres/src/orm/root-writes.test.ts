import { expect, test } from 'vitest'
import { isWrite } from './root-writes.ts'

test.each([
  ['insert into charges values (1)', true],
  ['/* a comment */ UPDATE charges set cents = 1', true],
  ['with gone as (delete from charges returning *) select count(*) from gone', true],
  ['select * from charges for update', false],
  ['with held as (select 1 from charges for update) select * from held', false],
  ["select 'insert into charges'", false],
  ['begin', false],
  ['', false],
])('%s: is a write: %s', (text, expected) => {
  expect(isWrite(text)).toBe(expected)
})
