import type { Reading } from './expected.ts'
import type { Case } from './plan.ts'

/** What happened to one message over one setup. */
export interface Told {
  readonly one: Case
  readonly setup: string
  readonly reading: Reading
  /** How it was settled when it came first, again, and in one call with all the others: `ack processed`. */
  readonly settled: readonly string[]
  /** The event ids that were reported, each once. */
  readonly ids: readonly string[]
  /** What the handler saw, for every run: nothing, or what was not as the broker gave it. */
  readonly changed: readonly string[]
  /** How its dead letter differs from the message. Undefined if it has none. */
  readonly stored: readonly string[] | undefined
  /** How it was settled from the store after its replay. Undefined if it was not replayed. */
  readonly replayed: string | undefined
  readonly effects: number
  /** The longest time that the event loop was busy with it, and with a bare `JSON.parse` of its body, ms. */
  readonly turnMs: number
  readonly parseMs: number
  /** What its envelope did that it must not do. */
  readonly envelope: readonly string[]
}

export interface History {
  readonly told: readonly Told[]
  /** Log lines with a secret in them. */
  readonly leaks: readonly string[]
  /** Rejections that nothing handled, and errors of calls that must not reject. */
  readonly crashes: readonly string[]
}
