import type { OpenFuzz } from './fuzz.ts'

/** More than these are not worth the time: they are mended one by one. */
const MOST_FAILURES = 5

export interface Campaign {
  readonly fuzz: OpenFuzz
  /** Seed of the first case; the next ones count up. */
  readonly seed: number
  /** No case starts after these ms. */
  readonly forMs: number
  /** At most so many cases. Default: no bound. */
  readonly cases?: number
  /** Called when a violation is found, because a long campaign may be cut off before its end. */
  readonly onViolation?: (seed: number, violation: string) => void
}

export interface Findings {
  readonly cases: number
  readonly failures: readonly { readonly seed: number; readonly violation: string }[]
}

/** Plays one case after the other, until the time is over. */
export async function runCampaign(campaign: Campaign): Promise<Findings> {
  const { fuzz, seed, forMs, cases = Number.POSITIVE_INFINITY, onViolation } = campaign
  const endsAt = performance.now() + forMs
  const failures: { seed: number; violation: string }[] = []
  let played = 0
  while (played < cases && performance.now() < endsAt && failures.length < MOST_FAILURES) {
    const violation = await fuzz.play(seed + played)
    if (violation !== undefined) {
      failures.push({ seed: seed + played, violation })
      onViolation?.(seed + played, violation)
    }
    played += 1
  }
  return { cases: played, failures }
}
