const SPAN = /^(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)$/
const UNIT_MS: Readonly<Record<string, number>> = {
  ...{ ms: 1, s: 1_000, min: 60_000, m: 60_000, h: 3_600_000, d: 86_400_000 },
}

/** `90s`, `15min`, `2h`, `14d` in milliseconds; undefined for anything else. */
export function spanMs(text: string): number | undefined {
  const [, count = '', unit = ''] = SPAN.exec(text) ?? []
  const unitMs = UNIT_MS[unit]
  const ms = unitMs === undefined ? Number.NaN : Number(count) * unitMs
  return Number.isFinite(ms) ? ms : undefined
}
