import type { Guard } from '@onceward/core'
import type { Place, ProveBroker } from '@onceward/testing/prove'
import type { OrderPlaced } from './order.ts'

/** What the demo needs of a broker: for the parent process a server, for the workers two consumers. */
export interface DemoBroker {
  /** As people call it. */
  readonly title: string
  /** Client libraries that `--client` may name; the first one is the default. */
  readonly clients?: readonly string[]
  /** Starts a server, or finds the user's. */
  start(client?: string): Promise<DemoServer>
  /** The consumer with the guard; resolves when `signal` has stopped it. */
  guarded(work: GuardedWork): Promise<void>
  /** A hand-written consumer, which acknowledges after the commit. */
  unguarded(work: UnguardedWork): Promise<void>
}

export interface DemoServer extends AsyncDisposable {
  /**
   * For a broker that takes work away from a silent process: how long one worker is stopped by SIGSTOP,
   * in milliseconds. It is longer than the broker's session.
   */
  readonly pauseMs?: number
  /**
   * For a broker that does not count messages in flight: how long workers must be silent before an empty
   * queue means that all is done, in milliseconds. It is longer than the longest handler.
   */
  readonly silenceMs?: number
  /** A new queue, or topic. */
  openQueue(name: string): Promise<DemoQueue>
}

export interface DemoQueue extends AsyncDisposable {
  /** Where workers find the queue. Only the broker that wrote the address reads it. */
  readonly address: string
  /** Sends orders. The header `idempotency-key` carries the event key. */
  send(orders: readonly number[]): Promise<void>
  /** Messages that are not acknowledged; with `silenceMs` those in flight are not counted. */
  waiting(): Promise<number>
}

interface Work {
  /** Of the queue, as {@link DemoQueue.address} says it. */
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

/** The event key that the producer sets. */
const eventKey = (orderId: number): string => `order-${orderId}-placed`

/** A place for orders. */
export function demoQueue(place: Place<ProveBroker>, address: string): DemoQueue {
  return {
    address,
    send: (orders) =>
      place.send(
        orders.map((orderId) => ({
          body: JSON.stringify({ orderId }),
          headers: { 'idempotency-key': eventKey(orderId) },
        })),
      ),
    waiting: () => place.waiting(),
    [Symbol.asyncDispose]: async () => place[Symbol.asyncDispose](),
  }
}

/** Resolves when `signal` aborts. */
export async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
}
