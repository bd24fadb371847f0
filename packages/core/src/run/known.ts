import type { Claimed } from '../lease/claim.ts'
import type { ClaimsByNeed } from '../lease/claims-by-need.ts'
import type { Json } from '../model/brands.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { WriteMarks } from '../model/lease-store.ts'
import type { Outcome } from '../settlement/outcome.ts'
import type { DoneMemory } from '../transaction/done-memory.ts'

/** What was known of an event before its claim and its transaction. */
export type Before =
  | { readonly kind: 'done'; readonly result: Json | undefined }
  | {
      readonly kind: 'open'
      /** The name of the inbox's history. */
      readonly history: string | undefined
      /** Given if the event needs no claim, because it is probably new: remembers it when it is done. */
      readonly marks: WriteMarks | undefined
    }

/** An event that ends. */
interface Ended {
  readonly member: InFlightEvent
  readonly known?: Before | undefined
  readonly claimed?: Claimed
}

/**
 * What is remembered of done events beside their rows: in this process, and in a lease store that is asked by need. Asked
 * before an event is claimed, and told its outcome after.
 */
export class Known {
  readonly #seenDone: DoneMemory
  readonly #byNeed: ClaimsByNeed | undefined

  constructor(seenDone: DoneMemory, byNeed: ClaimsByNeed | undefined) {
    this.#seenDone = seenDone
    this.#byNeed = byNeed
  }

  before(member: InFlightEvent): Before {
    const { history } = this.#seenDone
    const done = member.parked === undefined ? this.#seenDone.recall(member.event) : undefined
    if (done !== undefined) return { kind: 'done', result: done.result }
    return { kind: 'open', history, marks: this.#byNeed?.spares(member) }
  }

  after({ claimed, known, member }: Ended, outcome: Outcome): void {
    if (known?.kind !== 'open') return
    // What operators replay says nothing about the broker.
    if (member.parked === undefined) this.#byNeed?.ended(outcome)
    if (outcome.kind !== 'processed' && outcome.kind !== 'duplicate') return
    const ageMs = outcome.kind === 'processed' ? 0 : outcome.ageMs
    const { history, marks } = known
    // Only what the inbox has confirmed. It says how old its events are.
    if (ageMs !== undefined) {
      this.#seenDone.add(member.event, { history, result: outcome.result, ageMs })
    }
    if (marks !== undefined && claimed === undefined) {
      this.#byNeed?.remember(member, outcome, marks)
    }
  }
}
