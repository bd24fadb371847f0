import type { Delivery } from '../model/delivery.ts'
import type { DeadLetterAnswer } from '../model/guard-port.ts'
import type { Outcome } from './outcome.ts'

type Dead = Extract<Outcome, { kind: 'dead' }>

/** Beyond that the oldest one is forgotten, and its handler runs once more. */
const MOST = 1_000

/**
 * Verdicts on messages without an event key whose dead letters could not be published. No store has the state of such a
 * message, so without them its handler would run again each time its dead letter is tried again.
 *
 * A message is known by its position, which stays when it is received again. Without one it is known by the client's
 * object, which stays the same until the message is settled.
 */
export class Unpublished {
  readonly #byPosition = new Map<string, Dead>()
  readonly #byObject = new WeakMap<object, Dead>()

  of(delivery: Delivery): Dead | undefined {
    const position = positionOf(delivery)
    if (position !== undefined) return this.#byPosition.get(position)
    return isObject(delivery.raw) ? this.#byObject.get(delivery.raw) : undefined
  }

  tried(delivery: Delivery, verdict: Dead, { kind }: DeadLetterAnswer): void {
    if (kind === 'retry') this.#remember(delivery, verdict)
    // If the message comes again nevertheless, an operator wants it to run again.
    else this.#forget(delivery)
  }

  #remember(delivery: Delivery, verdict: Dead): void {
    const position = positionOf(delivery)
    if (position !== undefined) {
      this.#byPosition.delete(position)
      this.#byPosition.set(position, verdict)
      const [oldest] = this.#byPosition.keys()
      if (this.#byPosition.size > MOST && oldest !== undefined) this.#byPosition.delete(oldest)
    } else if (isObject(delivery.raw)) this.#byObject.set(delivery.raw, verdict)
  }

  #forget(delivery: Delivery): void {
    const position = positionOf(delivery)
    if (position !== undefined) this.#byPosition.delete(position)
    else if (isObject(delivery.raw)) this.#byObject.delete(delivery.raw)
  }
}

function positionOf({ source }: Delivery): string | undefined {
  const { broker, queue, incarnation, position } = source
  return position === undefined ? undefined : JSON.stringify([broker, queue, incarnation, position])
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null
