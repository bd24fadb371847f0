import { expect } from 'vitest'

/** How much the clocks of two stores differ while a sequence of commands runs. */
const TOLERANCE_MS = 3_500
const TIMES = ['remainingMs', 'ageMs']
/** What stores make themselves, and what they keep in a form of their own. */
const OWN = [...TIMES, 'token', 'letter', 'error', 'event']

/** Without what may differ; undefined fields are left out. */
function comparable(answer: unknown): unknown {
  const text = JSON.stringify(answer, (name, value: unknown) => {
    if (OWN.includes(name)) return undefined
    return typeof value === 'bigint' ? String(value) : value
  })
  return text === undefined ? undefined : JSON.parse(text)
}

function timesOf(answer: unknown): readonly number[] {
  if (!Array.isArray(answer)) return []
  return answer.flatMap((each: Readonly<Record<string, unknown>> | undefined) =>
    TIMES.flatMap((name) => (typeof each?.[name] === 'number' ? (each[name] as number) : [])),
  )
}

/** Equal but for tokens, for texts that each store makes itself, and for what the clocks differ by. */
export function assertSame([its, mine]: readonly [unknown, unknown]): void {
  expect(comparable(its)).toEqual(comparable(mine))
  const mineMs = timesOf(mine)
  for (const [at, ms] of timesOf(its).entries()) {
    expect(Math.abs(ms - (mineMs[at] ?? 0))).toBeLessThan(TOLERANCE_MS)
  }
}
