import { expect, test } from 'vitest'
import { table } from './table.ts'

test('columns are as wide as their widest cell, and the last one is not padded', () => {
  const rows = [
    ['billing', '1'],
    ['b', '200'],
  ]
  expect(table(['CONSUMER', 'COUNT'], rows)).toBe('CONSUMER  COUNT\nbilling   1\nb         200')
})

// Red when the widths are found by a call with a parameter for each row: the stack holds about 125,000.
test('a table has any number of rows', () => {
  const rows = Array.from({ length: 200_000 }, (_, at) => [String(at), 'x'])
  expect(table(['AT', 'X'], rows).endsWith('\n199999  x')).toBe(true)
})
