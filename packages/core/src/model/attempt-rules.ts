import type { CountAnswer, Known } from './inbox.ts'

/*
 * The rules of attempts that all inboxes share (design.md §6): who owns a running row, when a run may still start, and
 * which attempt is the last one.
 */

/** A running row that was counted more recently belongs to a live owner, even if the row is not locked. */
export const YOUNG_MS = 5_000

/** Gives the owner of a row time to lock it in its transaction before another process may take it over. */
const START_MARGIN_MS = 1_000

/** A counted run that has not started after this time must not start, because its row soon gets another owner. */
export const LATEST_START_MS: number = YOUNG_MS - START_MARGIN_MS

/**
 * The limit of runs without a verdict, as a multiple of the attempts. Such a run says nothing about its event, but an
 * event whose every run ends this way must not run forever.
 */
export const NO_VERDICT_FACTOR = 3

/**
 * Whether a running row still belongs to the owner that counted it `ageMs` ago. A count that lies ahead was made before
 * the clock of the store was set back, so its age says nothing: the owner may be dead, and it must not hold its event until
 * that time comes again. A live one loses its token, and with it nothing but the attempt.
 */
export function isOwnerLive(ageMs: number): boolean {
  return Math.abs(ageMs) < YOUNG_MS
}

/** Whether this attempt was the last one. */
export function areAttemptsSpent(attempt: number, maxAttempts: number): boolean {
  return attempt >= maxAttempts
}

/** How to count an event. */
export interface CountRequest {
  /** Earlier runs that are known to have ended without a verdict. */
  readonly noVerdicts: number
  /** `alone`: nothing else runs in the process during the run. */
  readonly run: 'together' | 'alone'
  readonly maxAttempts: number
}

/** Like {@link CountAnswer}, before the store has created a token. */
export type CountDecision =
  | Exclude<CountAnswer, { kind: 'counted' }>
  | { readonly kind: 'counted'; readonly attempt: number }

/** What a count does to an event in this state. Pure. The row is locked. */
export function decideCount(known: Known, request: CountRequest): CountDecision {
  if (known.kind === 'running' && isOwnerLive(known.ageMs)) return { kind: 'held' }
  if (!isToBeRun(known, request.run)) return { kind: 'changed' }
  const { attempt } = known
  const { maxAttempts, noVerdicts } = request
  if (areAttemptsSpent(attempt, maxAttempts)) {
    return { kind: 'buried', reason: 'attempts-spent', attempt }
  }
  if (noVerdicts >= NO_VERDICT_FACTOR * maxAttempts) {
    return { kind: 'buried', reason: 'no-verdict', attempt }
  }
  return { kind: 'counted', attempt: attempt + 1 }
}

/** A running row without a live owner runs alone, because its last run may have crashed the process. */
function isToBeRun(
  known: Known,
  run: 'together' | 'alone',
): known is Extract<Known, { kind: 'running' | 'waiting' }> {
  if (known.kind === 'running') return run === 'alone'
  return known.kind === 'waiting' && known.remainingMs <= 0 && (run === 'alone' || !known.alone)
}
