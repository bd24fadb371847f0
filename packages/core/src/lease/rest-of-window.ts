import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Outcome } from '../settlement/outcome.ts'

/** The rest of a window is rounded down to such parts of it, so that duplicates of about the same age share a call. */
const PARTS = 16

/** The inbox forgets a done event at the end of its window, and then the lease store must have forgotten it too. */
export function restOfWindowMs(
  { dedupWindowMs }: Pick<ResolvedOptions, 'dedupWindowMs'>,
  { ageMs = 0 }: Extract<Outcome, { kind: 'duplicate' }>,
): number {
  const partMs = dedupWindowMs / PARTS
  const restMs = dedupWindowMs - Math.max(0, ageMs)
  return Math.max(0, Math.floor(restMs / partMs) * partMs)
}
