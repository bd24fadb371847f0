import type { Outcome } from './publish.ts'
import type { StoredMessage } from './relay-store.ts'

/** Looks in which a message fails alone, before the failure is taken for its own. */
const LOOKS_ALONE = 5

/** What a relay does about the outcomes of some calls. */
export interface Verdict {
  readonly confirmed: readonly StoredMessage[]
  /** An attempt of them is counted. */
  readonly counted: readonly { readonly message: StoredMessage; readonly error: unknown }[]
  /** Why the destination is taken to be down. */
  readonly failure?: { readonly error: unknown } | undefined
}

/**
 * Tells a message that its destination does not take from a destination that is down. The destination is down if everything
 * failed that was tried. A failure is the message's
 * - if the destination has refused this message,
 * - if a call that began later was confirmed,
 * - if an attempt of it was counted before, nothing else was tried, and the destination does not say that it is down,
 * - if nothing else waits, after five looks. Until something is confirmed this happens to one message, so an outage does not
 *   bury one after the other; and where the destination says that it is down, only to one that was counted before.
 */
export class Verdicts {
  /** The last call that was confirmed. */
  #confirmed = 0
  /** Messages that have failed since then without an attempt, by position: in how many looks. */
  readonly #failing = new Map<string, { readonly message: StoredMessage; readonly looks: number }>()
  /** The position of the message that was counted although nothing has shown that the destination takes others. */
  #countedAlone: string | undefined

  /** The one message that has failed. Undefined: there is none, or others have failed too. */
  get failsAlone(): StoredMessage | undefined {
    const [first, ...others] = this.#failing.values()
    return others.length === 0 ? first?.message : undefined
  }

  of(outcomes: readonly Outcome[]): Verdict {
    const confirmed = outcomes.filter(({ answer }) => answer === undefined)
    if (confirmed.length > 0) this.#tookOne(Math.max(...confirmed.map(({ call }) => call)))
    const counted: { message: StoredMessage; error: unknown }[] = []
    const failed: Failed[] = []
    for (const { answer, call, message } of outcomes) {
      if (answer === undefined) continue
      const error = answer.refused ?? answer.unknown ?? answer.down
      const isSure = answer.refused !== undefined || this.#confirmed > call
      if (isSure) counted.push({ message, error })
      else failed.push({ message, error, isDown: answer.down !== undefined })
    }
    for (const { message } of counted) this.#failing.delete(message.position)
    const rest = this.#countSuspects(failed, counted)
    const last = rest.at(-1)
    return {
      confirmed: confirmed.map(({ message }) => message),
      counted,
      ...(last !== undefined && { failure: { error: last.error } }),
    }
  }

  #tookOne(call: number): void {
    this.#confirmed = Math.max(this.#confirmed, call)
    this.#failing.clear()
    this.#countedAlone = undefined
  }

  /** Answers the failures that say that the destination is down. */
  #countSuspects(
    failed: readonly Failed[],
    counted: { message: StoredMessage; error: unknown }[],
  ): readonly Failed[] {
    if (failed.every(({ isDown, message }) => !isDown && message.attempt > 0)) {
      counted.push(...failed)
      for (const { message } of failed) this.#failing.delete(message.position)
      return []
    }
    for (const { message } of failed) {
      const looks = (this.#failing.get(message.position)?.looks ?? 0) + 1
      this.#failing.set(message.position, { message, looks })
    }
    const [only] = failed
    if (only === undefined || !this.#isCountedAlone(only)) return failed
    this.#countedAlone = only.message.position
    this.#failing.clear()
    counted.push(only)
    return []
  }

  #isCountedAlone({ isDown, message: { attempt, position } }: Failed): boolean {
    if (this.#failing.size > 1 || (isDown && attempt === 0)) return false
    if (![undefined, position].includes(this.#countedAlone)) return false
    return (this.#failing.get(position)?.looks ?? 0) >= LOOKS_ALONE
  }
}

interface Failed {
  readonly message: StoredMessage
  readonly error: unknown
  readonly isDown: boolean
}
