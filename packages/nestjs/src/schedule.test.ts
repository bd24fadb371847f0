import { CronJob } from 'cron'
import { expect, test } from 'vitest'
import { lastTickMs } from './schedule.ts'

const job = (cronTime: string, zone: { timeZone?: string; utcOffset?: number } = {}) =>
  CronJob.from({ cronTime, onTick: () => undefined, ...zone } as never)

const ms = (text: string): number => Date.parse(text)
const lastTick = (of: CronJob, now: string): string =>
  new Date(lastTickMs(of as never, ms(now)) ?? 0).toISOString()

test.each([
  ['on time', '2026-11-29T03:00:00.000Z'],
  ['ms later', '2026-11-29T03:00:00.007Z'],
  ['after a second', '2026-11-29T03:00:01.900Z'],
  ['after minutes in which the event loop was blocked', '2026-11-29T03:07:12.345Z'],
  ['in the last millisecond before the next tick', '2026-11-30T02:59:59.999Z'],
])('a process that fires %s has the same tick as the others', (_, now) => {
  const daily = job('0 3 * * *', { timeZone: 'UTC' })
  expect(lastTick(daily, now)).toBe('2026-11-29T03:00:00.000Z')
})

test('every second has its tick, and a process that is late by several has the newest', () => {
  const often = job('* * * * * *')
  expect(lastTick(often, '2026-11-29T03:00:07.001Z')).toBe('2026-11-29T03:00:07.000Z')
  expect(lastTick(often, '2026-11-29T03:00:07.999Z')).toBe('2026-11-29T03:00:07.000Z')
  expect(lastTick(often, '2026-11-29T03:00:08.000Z')).toBe('2026-11-29T03:00:08.000Z')
})

test('the last tick of a schedule of one day in the year is found in the year', () => {
  const yearly = job('59 59 23 1 1 *', { timeZone: 'UTC' })
  expect(lastTick(yearly, '2026-11-29T03:00:00.000Z')).toBe('2026-01-01T23:59:59.000Z')
})

test('a tick is an instant: zones and offsets do not change what a process sees', () => {
  const berlin = job('30 2 * * *', { timeZone: 'Europe/Berlin' })
  expect(lastTick(berlin, '2026-11-29T12:00:00.000Z')).toBe('2026-11-29T01:30:00.000Z')
  const offset = job('30 2 * * *', { utcOffset: 90 })
  expect(lastTick(offset, '2026-11-29T12:00:00.000Z')).toBe('2026-11-29T01:00:00.000Z')
})

test('daylight saving: an hour that comes twice has ticks of its own, and one that is skipped has its tick after it', () => {
  const halfHourly = job('30 * * * *', { timeZone: 'Europe/Berlin' })
  const seen = ['00:31', '01:31', '02:31'].map((at) => lastTick(halfHourly, `2026-10-25T${at}:00Z`))
  expect(seen).toEqual(['00:30', '01:30', '02:30'].map((at) => `2026-10-25T${at}:00.000Z`))
  const nightly = job('30 2 * * *', { timeZone: 'Europe/Berlin' })
  // 02:30 does not exist that night. The job fires at 03:00, which is 01:00 UTC.
  expect(lastTick(nightly, '2026-03-29T05:00:00Z')).toBe('2026-03-29T01:00:00.000Z')
})

test('a date has that tick', () => {
  const at = new Date(Date.now() + 60_000)
  const dated = CronJob.from({ cronTime: at, onTick: () => undefined } as never)
  expect(lastTickMs(dated as never, at.getTime() + 5)).toBe(at.getTime())
  expect(lastTickMs(dated as never, at.getTime() - 5)).toBeUndefined()
})

test('a schedule without a tick in the last eight years has none', () => {
  const leap = job('0 0 29 2 *', { timeZone: 'UTC' })
  expect(lastTick(leap, '2026-11-29T00:00:00Z')).toBe('2024-02-29T00:00:00.000Z')
})
