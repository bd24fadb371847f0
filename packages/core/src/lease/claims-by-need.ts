import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { ClaimResult, LeaseSession, WriteMarks } from '../model/lease-store.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { ClaimNeed } from './claim-need.ts'
import { MarkWriter } from './mark-writer.ts'
import { restOfWindowMs } from './rest-of-window.ts'

/**
 * Beside an inbox the row is the fence, so an event that is probably new needs no claim. It is remembered in the store
 * after its commit, and nothing waits for that.
 */
export class ClaimsByNeed {
  readonly #need = new ClaimNeed()
  readonly #writer: MarkWriter
  readonly #options: ResolvedOptions
  readonly #store: LeaseSession

  constructor(options: ResolvedOptions, store: LeaseSession) {
    this.#options = options
    this.#store = store
    this.#writer = new MarkWriter(options.runtime)
  }

  /** What remembers the event when it is done. Undefined: the event is to be claimed. */
  spares({ parked, suspect }: InFlightEvent): WriteMarks | undefined {
    if (suspect || parked !== undefined || this.#need.claims()) return undefined
    return this.#store.marks?.()
  }

  answered(results: readonly ClaimResult[]): void {
    for (const result of results) {
      this.#need.answered(result.kind !== 'acquired' || result.by !== 'first')
    }
  }

  ended({ kind }: Outcome): void {
    if (kind === 'processed' || kind === 'duplicate') this.#need.ended(kind === 'duplicate')
  }

  remember({ event }: InFlightEvent, outcome: Outcome, write: WriteMarks): void {
    if (outcome.kind !== 'processed' && outcome.kind !== 'duplicate') return
    const rememberMs =
      outcome.kind === 'processed'
        ? this.#options.dedupWindowMs
        : restOfWindowMs(this.#options, outcome)
    const { fingerprint, id } = event
    this.#writer.add({ id, fingerprint, result: outcome.result }, write, rememberMs)
  }

  drain(): Promise<void> {
    return this.#writer.drain()
  }
}

export function claimsByNeed(
  options: ResolvedOptions,
  store: LeaseSession,
): ClaimsByNeed | undefined {
  const isPossible = options.inbox !== undefined && store.marks !== undefined
  return isPossible ? new ClaimsByNeed(options, store) : undefined
}
