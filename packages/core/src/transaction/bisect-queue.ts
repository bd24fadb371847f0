import { type Batch, concludeAll } from './batch-state.ts'
import type { PendingEvent } from './pending-event.ts'
import { giveBack } from './verdict.ts'

/** The wait for a row of an event whose batch was held up already, ms. */
export const SINGLE_WAIT_MS = 50

/** What is left of a batch that is run in parts. Mutable, and owned by one run of it. */
export interface BisectQueue {
  readonly batch: Batch
  parts: (readonly PendingEvent[])[]
  failures: number
  serializations: number
  /** Set once the batch was held up by a row that nobody can name. */
  singleWaitMs: number | undefined
}

/** Everything that is left has its own transaction from now on. */
export function toSingles(queue: BisectQueue, members: readonly PendingEvent[]): void {
  queue.parts = [members, ...queue.parts].flat().map((pending) => [pending])
}

export function requeue(queue: BisectQueue, parts: readonly (readonly PendingEvent[])[]): void {
  queue.parts.unshift(...parts)
}

/** The rows decide anew what these events are. */
export function readAgain(members: readonly PendingEvent[]): void {
  for (const pending of members) {
    pending.standing = 'read'
    pending.counted = undefined
  }
}

export async function abandon(batch: Batch, members: readonly PendingEvent[]): Promise<void> {
  await giveBack(batch.run.engine, members, 'given-back')
  concludeAll(batch, members, { kind: 'abandoned', reason: 'closing' })
}
