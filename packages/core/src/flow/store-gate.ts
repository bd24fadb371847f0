import type { GuardPort } from '../model/guard-port.ts'
import { byOrderingKey, type Delivered } from './ordering.ts'

/** While the store is down its availability, which is a local answer, is looked at this often. */
export const STORE_LOOK_MS = 1_000

/** What the store allows to start. */
export type Gate =
  | { readonly kind: 'open' }
  /** One message may ask the store whether it is back. */
  | { readonly kind: 'probe'; readonly error: unknown }
  /** Nothing may start. `waitMs` is 0 while a message asks the store. */
  | {
      readonly kind: 'shut'
      readonly error: unknown
      readonly waitMs: number
      /** The consumer is paused: nothing that was not started stays in hand. */
      readonly isPaused?: true
    }

/** Messages that came from the broker, and what is to become of them. */
export interface Admitted<Each> {
  readonly start: readonly Each[]
  /** Until the store is back. */
  readonly wait: readonly Each[]
  /** Back to the broker: the consumer is paused. */
  readonly back: readonly Each[]
}

/** Lets one message at a time ask a store that is down whether it is back. */
export class StoreGate {
  readonly #port: Pick<GuardPort, 'availability' | 'runtime'>
  #isProbing = false

  constructor(port: Pick<GuardPort, 'availability' | 'runtime'>) {
    this.#port = port
  }

  look(): Gate {
    const availability = this.#port.availability()
    if (availability.kind === 'available') return { kind: 'open' }
    const { retryAt, error, pause } = availability
    const waitMs = Math.max(0, retryAt - this.#port.runtime.now())
    if (waitMs > 0 || this.#isProbing) {
      return { kind: 'shut', error, waitMs, ...(pause === undefined ? {} : { isPaused: true }) }
    }
    return { kind: 'probe', error }
  }

  /** A message asks the store. */
  probing(): void {
    this.#isProbing = true
  }

  /** The store has answered, or nothing was there to ask it. */
  answered(): void {
    this.#isProbing = false
  }

  /** Messages of a receive from before the outage wait for the store; one group of them may ask it. */
  admit<Each extends Delivered>(received: readonly Each[]): Admitted<Each> {
    const gate = this.look()
    if (gate.kind === 'open') return { start: received, wait: [], back: [] }
    if (gate.kind === 'shut' && gate.isPaused) return { start: [], wait: [], back: received }
    const start = gate.kind === 'probe' ? (byOrderingKey(received)[0] ?? []) : []
    if (start.length > 0) this.probing()
    return { start, wait: received.filter((each) => !start.includes(each)), back: [] }
  }
}
