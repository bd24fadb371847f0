import { expect, test } from 'vitest'
import { spanMs } from '../span.ts'
import { bytes, counted, duration, instant, relative } from './units.ts'

test.each([
  [0, '0 ms'],
  [999.4, '999 ms'],
  [1_000, '1 s'],
  [61_500, '1 min 1 s'],
  [7_500_000, '2 h 5 min'],
  [1_296_000_000, '15 d'],
  [-5, '0 ms'],
])('%d ms are %s', (ms, text) => {
  expect(duration(ms)).toBe(text)
})

test.each([
  [0, '0 bytes'],
  [1_023, '1023 bytes'],
  [1_024, '1.0 KiB'],
  [1_536, '1.5 KiB'],
  [10_485_760, '10 MiB'],
  [2 ** 50, '1024 TiB'],
])('%d bytes are %s', (count, text) => {
  expect(bytes(count)).toBe(text)
})

test('one is singular', () => {
  expect([counted(1, 'event'), counted(1_200, 'event')]).toEqual(['1 event', '1,200 events'])
})

test('an instant is before or after now', () => {
  expect(relative(1_000, 3_000)).toBe('2 s ago')
  expect(relative(3_000, 1_000)).toBe('in 2 s')
  expect(relative(1_000, 1_000)).toBe('0 ms ago')
})

test('an instant is shown in UTC', () => {
  expect(instant(1_800_000_000_123)).toBe('2027-01-15T08:00:00.123Z')
})

test.each([
  ['90s', 90_000],
  ['1.5h', 5_400_000],
  ['14d', 1_209_600_000],
  ['250ms', 250],
  ['soon', undefined],
  ['5', undefined],
])('the span %s is %s ms', (text, ms) => {
  expect(spanMs(text)).toBe(ms)
})
