// Numbers, sizes, spans and instants as people read them.

import { h } from './dom.js'

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
]

/** `2 h 5 min`; seconds only below a minute. */
export function duration(ms) {
  const whole = Math.max(0, ms)
  const at = UNITS.findIndex(([, unit]) => whole >= unit)
  if (at === -1) return '0 s'
  const [name, unit] = UNITS[at]
  const count = Math.floor(whole / unit)
  if (at >= 2) return `${count} ${name}`
  const [nextName, next] = UNITS[at + 1]
  const rest = Math.floor((whole - count * unit) / next)
  return rest === 0 ? `${count} ${name}` : `${count} ${name} ${rest} ${nextName}`
}

/** An instant as `3 min ago` or `in 20 s`, with the exact time beside it for those who hover or listen. */
export function instant(ms, nowMs) {
  if (ms === null || ms === undefined) return '–'
  const text = ms <= nowMs ? `${duration(nowMs - ms)} ago` : `in ${duration(ms - nowMs)}`
  const iso = new Date(ms).toISOString()
  return h('time', { datetime: iso, title: iso }, text)
}

/** The time of day, or the day of what is older than one. */
export function clock(ms) {
  const time = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }
  const isOld = Date.now() - ms > 86_400_000
  return new Date(ms).toLocaleString(
    'en',
    isOld ? { month: 'short', day: 'numeric', ...time } : time,
  )
}

const COMPACT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })

/** `12,345`, and from 100,000 on `1.2M`. */
export const count = (value) =>
  value < 100_000 ? Math.round(value).toLocaleString('en') : COMPACT.format(value)

export function bytes(value) {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']
  const at = value < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(value) / 10))
  const left = value / 1_024 ** at
  return `${at > 0 && left < 10 ? left.toFixed(1) : Math.round(left).toLocaleString('en')} ${units[at]}`
}

/** `1 event`, `2 events`. */
export const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? '' : 's'}`
