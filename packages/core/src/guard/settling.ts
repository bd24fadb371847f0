import { isPromise } from '../concurrency/maybe-async.ts'
import type { Delivery } from '../model/delivery.ts'
import type { RunHooks } from '../model/guard-port.ts'
import type { Settlement } from '../model/settlement.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { observeOutcome } from '../settlement/observe.ts'
import { type Outcome, settlementOf } from '../settlement/outcome.ts'
import type { DeadLetterPublisher } from '../settlement/publish-dead-letter.ts'
import type { OpenStores } from './open-stores.ts'
import type { Facts, Processing } from './processing.ts'
import { wholeOrDeferred } from './whole-record.ts'

/** What all calls of a guard share. */
export interface SettlingParts {
  readonly options: ResolvedOptions
  readonly breaker: Processing['breaker']
  readonly publisher: DeadLetterPublisher
  /** Called for each delivery when it has its settlement. */
  readonly onSettled: (outcome: Outcome) => void
}

/** Step 5 for the deliveries of one call: each gets its settlement as soon as its outcome is known. */
export class Settling {
  /** By the index of the delivery. */
  readonly settlements: Settlement[] = []
  readonly #parts: SettlingParts
  readonly #deliveries: readonly Delivery[]
  readonly #hooks: RunHooks
  readonly #startedAtMs: number
  /** One promise for each delivery whose settlement is still being checked. Undefined in most calls. */
  checking: Promise<void>[] | undefined
  #stores: OpenStores | undefined

  constructor(parts: SettlingParts, deliveries: readonly Delivery[], hooks: RunHooks) {
    this.#parts = parts
    this.#deliveries = deliveries
    this.#hooks = hooks
    const { observe, runtime } = parts.options
    // Only the hook reads how long the call took.
    this.#startedAtMs = observe === undefined ? 0 : runtime.monotonic()
  }

  /** While the stores cannot be used, every delivery has the same outcome. */
  concludeAll(outcome: Outcome): void {
    for (const index of this.#deliveries.keys()) this.#conclude(index, outcome, {})
  }

  observerWith(stores: OpenStores): Processing['observe'] {
    this.#stores = stores
    return (index, outcome, facts) => {
      if (outcome.kind === 'dead') this.#concludeDead(index, outcome, { facts, stores })
      else this.#conclude(index, outcome, facts)
    }
  }

  #concludeDead(index: number, outcome: Outcome, { facts, stores }: DeadFacts): void {
    const { breaker, options } = this.#parts
    const hasDeadLetterPlace = this.#hooks.hasDeadLetterPlace === true
    const places = { options, breaker, stores, hasDeadLetterPlace }
    const checked = wholeOrDeferred(places, this.#deliveries[index] as Delivery, outcome)
    if (isPromise(checked)) {
      this.checking ??= []
      this.checking.push(checked.then((end) => this.#conclude(index, end, facts)))
    } else this.#conclude(index, checked, facts)
  }

  #conclude(index: number, outcome: Outcome, facts: Facts): void {
    const { onSettled, options, publisher } = this.#parts
    const { eventId, handlerMs, key, timings } = facts
    const delivery = this.#deliveries[index] as Delivery
    const settlement = settlementOf(outcome, options.runtime)
    if (outcome.kind === 'dead') publisher.note(settlement, { delivery, outcome, key, eventId })
    // The settlement is set before the outcome is reported.
    this.settlements[index] = settlement
    onSettled(outcome)
    this.#hooks.onSettlement?.(index, settlement)
    const startedAtMs = this.#startedAtMs
    const report = { delivery, key, eventId, outcome, settlement, handlerMs, timings, startedAtMs }
    observeOutcome(options, this.#stores?.secret, report)
  }
}

interface DeadFacts {
  readonly facts: Facts
  readonly stores: OpenStores
}
