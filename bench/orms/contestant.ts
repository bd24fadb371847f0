import type { Inbox } from '@onceward/core'
import type { Order } from '../load/effects.ts'

/** An ORM with one write per event, guarded and by hand. */
export interface OrmContestant {
  readonly name: string
  /** @param max - Connections of the ORM's own pool. */
  connect(connectionString: string, max: number): Promise<ConnectedContestant>
}

export interface ConnectedContestant {
  readonly inbox: Inbox<unknown>
  /** The handler. */
  write(tx: unknown, order: Order): Promise<unknown>
  /** What one writes by hand: `insert … on conflict do nothing` into `handled`, and the write, in one transaction. */
  byHand(order: Order): Promise<unknown>
  close(): Promise<unknown>
}
