import type { ConsumerStatus, PausedStatus } from './status.ts'
import { silentSinceMs } from './table-findings.ts'

/** Something wrong with a consumer. `waiting` mends itself; the others need an operator. */
export type ConsumerTrouble =
  /** Its dead-letter queue or topic takes nothing. */
  | { readonly trouble: 'dependency-down'; readonly count: number; readonly sinceMs: number }
  | { readonly trouble: 'no-worker'; readonly sinceMs: number }
  | ({ readonly trouble: 'paused' } & PausedStatus)
  | { readonly trouble: 'dead-letters'; readonly count: number }
  | { readonly trouble: 'waiting'; readonly count: number; readonly nextTryMs: number | null }

/** Worst first. A healthy consumer has none. */
export function troublesOf(consumer: ConsumerStatus, nowMs: number): readonly ConsumerTrouble[] {
  const { nextTryMs, oldestUnpublishedMs, unpublished, unpublishedLate } = consumer
  const silentMs = silentSinceMs(consumer, nowMs)
  const dead = consumer.dead.reduce((sum, { count }) => sum + count, 0)
  const waits = consumer.waiting + consumer.parked
  const found: ConsumerTrouble[] = []
  if (unpublishedLate > 0) {
    const sinceMs = oldestUnpublishedMs ?? nowMs
    found.push({ trouble: 'dependency-down', count: unpublished, sinceMs })
  }
  if (silentMs !== undefined) found.push({ trouble: 'no-worker', sinceMs: silentMs })
  if (consumer.paused !== null) found.push({ trouble: 'paused', ...consumer.paused })
  if (dead > 0) found.push({ trouble: 'dead-letters', count: dead })
  if (waits > 0) found.push({ trouble: 'waiting', count: waits, nextTryMs })
  return found
}
