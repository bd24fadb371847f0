import type { CountAnswer, Known } from './inbox.ts'

/*
 * The rules of attempts that all inboxes share (design.md §6): who owns a running row, when a run may still start, and
 * which count is the last one.
 */

/** A running row that was counted more recently belongs to a live owner, whether the row is locked or not. */
export const YOUNG_MS = 5_000

/** Leaves the owner of a row time to lock it in its transaction before another process may take the row over. */
const START_MARGIN_MS = 1_000

/** A counted run that has not begun by then does not start: {@link YOUNG_MS} later its row may have another owner. */
export const LATEST_START_MS: number = YOUNG_MS - START_MARGIN_MS

/**
 * Runs without a verdict may be this many times the attempts. A run without a verdict says nothing about its event,
 * but an event that ends every run this way must not run for ever.
 */
export const NO_VERDICT_FACTOR = 3

/** Whether a running row still belongs to the owner that counted it `ageMs` ago. */
export function isOwnerLive(ageMs: number): boolean {
  return ageMs < YOUNG_MS
}

/** Whether this attempt was the last one. */
export function areAttemptsSpent(attempt: number, maxAttempts: number): boolean {
  return attempt >= maxAttempts
}

/** How an event is to be counted. */
export interface CountRequest {
  /** Runs so far that are known to have ended without a verdict. */
  readonly noVerdicts: number
  /** `alone`: nothing else runs in the process meanwhile. */
  readonly run: 'together' | 'alone'
  readonly maxAttempts: number
}

/** As {@link CountAnswer}, before the store has made a token. */
export type CountDecision =
  | Exclude<CountAnswer, { kind: 'counted' }>
  | { readonly kind: 'counted'; readonly attempt: number }

/** What a count does to an event in this state. Pure; the row is locked. */
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

/** A row that is running without a live owner runs alone: its last run may have ended the process. */
function isToBeRun(
  known: Known,
  run: 'together' | 'alone',
): known is Extract<Known, { kind: 'running' | 'waiting' }> {
  if (known.kind === 'running') return run === 'alone'
  return known.kind === 'waiting' && known.remainingMs === 0 && (run === 'alone' || !known.alone)
}
