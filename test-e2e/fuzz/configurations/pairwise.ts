/**
 * A short list of combinations in which every two values of two dimensions come together.
 *
 * @param dimensions - The values of each dimension. The first one is its default.
 * @param isPossible - Pairs that are in no possible combination are left out.
 */
export function pairwise(
  dimensions: readonly (readonly number[])[],
  isPossible: (values: readonly number[]) => boolean,
): readonly (readonly number[])[] {
  const open = new Set(
    dimensions.flatMap((values, at) =>
      dimensions
        .slice(at + 1)
        .flatMap((others, gap) =>
          values.flatMap((value) =>
            others.map((other) => pairName(at, value, at + 1 + gap, other)),
          ),
        ),
    ),
  )
  const found: (readonly number[])[] = []
  for (const pair of open) {
    const [at = 0, value = 0, otherAt = 0, other = 0] = pair.split(' ').map(Number)
    const defaults = dimensions.map(([first = 0]) => first)
    const start = defaults.with(at, value).with(otherAt, other)
    if (!isPossible(start)) continue
    const whole = filled(start, { dimensions, fixed: [at, otherAt], open, isPossible })
    for (const covered of pairsIn(whole)) open.delete(covered)
    found.push(whole)
  }
  return found
}

interface Filling {
  readonly dimensions: readonly (readonly number[])[]
  /** Dimensions that stay as they are. */
  readonly fixed: readonly number[]
  /** Pairs that no combination has yet. */
  readonly open: ReadonlySet<string>
  readonly isPossible: (values: readonly number[]) => boolean
}

/** Gives each other dimension the value that brings most of the open pairs. */
function filled(
  start: readonly number[],
  { dimensions, fixed, open, isPossible }: Filling,
): readonly number[] {
  const gain = (values: readonly number[]): number =>
    pairsIn(values).filter((pair) => open.has(pair)).length
  return dimensions.reduce((values, choices, at) => {
    if (fixed.includes(at)) return values
    const candidates = choices.map((choice) => values.with(at, choice)).filter(isPossible)
    return candidates.reduce((best, each) => (gain(each) > gain(best) ? each : best), values)
  }, start)
}

function pairsIn(values: readonly number[]): readonly string[] {
  return values.flatMap((value, at) =>
    values.slice(at + 1).map((other, gap) => pairName(at, value, at + 1 + gap, other)),
  )
}

const pairName = (at: number, value: number, otherAt: number, other: number): string =>
  `${at} ${value} ${otherAt} ${other}`
