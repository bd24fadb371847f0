import { randomBytes } from 'node:crypto'
import type { Order, Source } from '../workers/protocol.ts'

/** A queue, or topic, and where its dead letters go: as the test sees them. */
export interface Place {
  /** Where workers receive from. */
  readonly source: Exclude<Source, { readonly kind: 'hand' }>
  /** Resolves when the broker has confirmed all of them; survives an outage of the broker. */
  send(orders: readonly Order[]): Promise<void>
  /**
   * Messages that are not settled, hidden and delayed ones included. RabbitMQ does not tell of those that a
   * consumer has in hand.
   */
  depth(): Promise<number>
  /** What was published as dead: the order, and why. */
  deadLetters(): Promise<readonly { readonly id: string; readonly reason: string | undefined }[]>
  close(): Promise<void>
}

/** For a queue of its own, in whatever broker. */
export const freshName = (): string => `orders-${randomBytes(6).toString('hex')}`
