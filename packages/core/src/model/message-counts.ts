import type { Delivery } from './delivery.ts'

/**
 * Counts how often a message was read (decoded, checked, identified) without an end, by a hash of the message itself:
 * a message that ends the process while it is read has no event yet. Its count is the only trace.
 */
export interface MessageCounts {
  /**
   * Counts 1 for each message that has no count. `left`: the message has one, which its last reader did not end, and
   * it is not counted here. One statement.
   */
  start(deliveries: readonly Delivery[]): Promise<readonly ('started' | 'left')[]>
  /** Counts one more read of a message that is read alone. Answers the count. */
  startAlone(delivery: Delivery): Promise<number>
  /** The messages were read, whatever came of it: deletes their counts. One statement. */
  end(deliveries: readonly Delivery[]): Promise<void>
}
