const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const

/** A span as its two largest units: `2 h 5 min`. */
export function duration(ms: number): string {
  const whole = Math.max(0, Math.round(ms))
  if (whole < 1_000) return `${whole} ms`
  const at = UNITS.findIndex(([, unitMs]) => whole >= unitMs)
  const [unit, unitMs] = UNITS[at] ?? ['s', 1_000]
  const count = Math.floor(whole / unitMs)
  const [next, nextMs] = UNITS[at + 1] ?? ['', 0]
  const rest = nextMs === 0 ? 0 : Math.floor((whole - count * unitMs) / nextMs)
  return rest === 0 ? `${count} ${unit}` : `${count} ${unit} ${rest} ${next}`
}

export function bytes(count: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']
  let left = count
  let unit = 0
  while (left >= 1_024 && unit < units.length - 1) {
    left /= 1_024
    unit += 1
  }
  return unit === 0 ? `${count} bytes` : `${left.toFixed(left < 10 ? 1 : 0)} ${units[unit]}`
}

/** `1 event`, `2 events`. */
export const counted = (count: number, noun: string): string =>
  `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`

export const instant = (ms: number): string => new Date(ms).toISOString()

/** `3 min ago`, `in 20 s`. */
export function relative(ms: number, nowMs: number): string {
  return ms <= nowMs ? `${duration(nowMs - ms)} ago` : `in ${duration(ms - nowMs)}`
}
