/** Of all copies of this package in the process. */
const WAITING: unique symbol = Symbol.for('onceward.outbox.waiting')

type Waiting = Set<() => void>

const waiting = (): Waiting => {
  const place = globalThis as { [WAITING]?: Waiting }
  place[WAITING] ??= new Set()
  return place[WAITING]
}

/** Calls back when a transaction of this process has committed messages. Returns a function that ends it. */
export function onSent(wake: () => void): () => void {
  waiting().add(wake)
  return () => void waiting().delete(wake)
}

/** Messages are committed: relays of this process need not wait for their next look. */
export function wakeRelays(): void {
  for (const wake of waiting()) wake()
}
