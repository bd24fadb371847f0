import type { Guard } from '@onceward/core'
import type { OrderPlaced } from './order.ts'

/** All that the demo knows of a broker: what its parent does with it, and what its workers do. */
export interface DemoBroker {
  /** As people call it. */
  readonly title: string
  /** Starts a server of our own, or finds the user's. */
  start(): Promise<DemoServer>
  /** The consumer with the guard; resolves when `signal` has stopped it. */
  guarded(work: GuardedWork): Promise<void>
  /** The consumer that one writes by hand: the acknowledgement follows the commit. */
  unguarded(work: UnguardedWork): Promise<void>
}

export interface DemoServer extends AsyncDisposable {
  /**
   * How long one worker is stopped by SIGSTOP, where a broker takes work away from a process that is
   * silent; milliseconds, longer than the silence it bears.
   */
  readonly pauseMs?: number
  /**
   * Where a broker does not count what workers have in hand: how long they must be silent before an
   * empty queue means that all is done; milliseconds, longer than the longest handler.
   */
  readonly silenceMs?: number
  /** A new queue, or topic. */
  openQueue(name: string): Promise<DemoQueue>
}

export interface DemoQueue extends AsyncDisposable {
  /** Where workers find it; each broker reads its own. */
  readonly address: string
  /** Announces orders; the key of each travels in the header `idempotency-key`. */
  send(orders: readonly number[]): Promise<void>
  /** Messages that nobody has acknowledged; with `silenceMs` without those in the hands of workers. */
  waiting(): Promise<number>
}

interface Work {
  /** Of the queue. */
  readonly address: string
  readonly signal: AbortSignal
}

export interface GuardedWork extends Work {
  readonly billing: Guard
}

export interface UnguardedWork extends Work {
  /** Charges an order in a transaction of its own. */
  charge(order: OrderPlaced): Promise<void>
}

/** Identity of the event, as its producer gives it. */
export const eventKey = (orderId: number): string => `order-${orderId}-placed`

/** Resolves when `signal` aborts. */
export async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
}
