import type { Delivery } from '@onceward/core'
import type { DeadLetter } from '@onceward/core/ports'

/** A message that is dead after one attempt, except for what the test sets. */
export function deadLetterOf(delivery: Delivery, over: Partial<DeadLetter> = {}): DeadLetter {
  return {
    ref: { kind: 'refused', id: 'r-1' },
    consumer: 'billing',
    key: 'order-1',
    reason: 'fatal',
    error: 'no such order',
    attempts: 1,
    firstFailedAt: new Date(0),
    lastFailedAt: new Date(0),
    delivery,
    ...over,
  }
}
