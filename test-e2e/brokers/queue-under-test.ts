import { randomBytes } from 'node:crypto'
import type { Order, Source } from '../support/workers/protocol.ts'

/** What `--broker` says, and the environment that has the credentials. */
export interface OperatorAddress {
  readonly address: string
  readonly env: Readonly<Record<string, string>>
}

/** A queue, or topic, with its dead-letter queue, as the test sees them. */
export interface QueueUnderTest {
  /** Where workers receive from. */
  readonly source: Source
  /** How the command line names its broker. */
  readonly operator: OperatorAddress
  /** Resolves when the broker has confirmed all of them; survives an outage of the broker. */
  send(orders: readonly Order[]): Promise<void>
  /** Messages that are not settled, hidden and delayed ones included. RabbitMQ leaves out those in flight. */
  depth(): Promise<number>
  /** Messages in flight, where `depth` leaves them out and the broker can be asked. */
  inFlight?: (() => Promise<number>) | undefined
  /** What was published as dead: the order, and why. */
  deadLetters(): Promise<readonly { readonly id: string; readonly reason: string | undefined }[]>
  close(): Promise<void>
}

/** The name of a new queue, in any broker. */
export const freshName = (): string => `orders-${randomBytes(6).toString('hex')}`
