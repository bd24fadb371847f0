import type { Release } from '../model/runtime.ts'
import { type Batch, concludeAll } from './batch-state.ts'
import type { PendingEvent } from './pending-event.ts'
import { giveBack } from './verdict.ts'

/** Wait for the row of one event whose batch was blocked by a held row, ms. */
export const SINGLE_WAIT_MS = 50

/** The rest of a batch that runs in parts. Mutable, and owned by one run of the batch. */
export interface BisectQueue {
  readonly batch: Batch
  readonly hold: Release
  parts: (readonly PendingEvent[])[]
  failures: number
  serializations: number
  /** Set once the batch was blocked by a held row. */
  singleWaitMs: number | undefined
}

/** Each remaining event gets its own transaction from now on. */
export function toSingles(queue: BisectQueue, members: readonly PendingEvent[]): void {
  queue.parts = [members, ...queue.parts].flat().map((pending) => [pending])
}

export function requeue(queue: BisectQueue, parts: readonly (readonly PendingEvent[])[]): void {
  queue.parts.unshift(...parts)
}

/** Marks the events to be read again, so that their rows decide what to do. */
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
