import type { Breaker } from '../concurrency/breaker.ts'
import type { InFlight } from '../concurrency/in-flight.ts'
import { Lanes } from '../concurrency/lanes.ts'
import { isPromise, type MaybeAsync } from '../concurrency/maybe-async.ts'
import type { StopSignals } from '../concurrency/stop-signals.ts'
import type { EventId } from '../model/brands.ts'
import { copyDelivery, type Delivery } from '../model/delivery.ts'
import type { RunHooks } from '../model/guard-port.ts'
import type { Settlement } from '../model/settlement.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import {
  type Facts,
  type Observe,
  type ObserveItem,
  observeOutcome,
} from '../settlement/observe.ts'
import {
  laneFollowerOutcome,
  type Outcome,
  settlementOf,
  stopsLane,
} from '../settlement/outcome.ts'
import { pausedOr } from '../settlement/paused.ts'
import type { DeadLetterPublisher } from '../settlement/publish-dead-letter.ts'
import { retryDelayMs } from '../settlement/retry-rule.ts'
import { storeFailure } from '../settlement/store-down.ts'
import type { HandlerCall } from '../transaction/engine.ts'
import type { OpenStores } from './stores.ts'

/** The parts of a guard that all its calls share. */
export interface GuardParts {
  readonly options: ResolvedOptions
  readonly call: HandlerCall
  readonly breaker: Breaker
  readonly inFlight: InFlight
  readonly publisher: DeadLetterPublisher
}

/** What the five steps share for the deliveries of one call. */
export interface Processing extends Omit<GuardParts, 'publisher'> {
  readonly stores: OpenStores
  readonly signals: StopSignals
  /** The events are only stored. They run later. */
  readonly isParking: boolean
  /** The caller reads the results of the handlers. */
  readonly isResultRead?: boolean | undefined
  readonly lanes: Lanes<Outcome>
  /** Settlements that wait for the lease store or for copies, by event. */
  readonly settling: Map<EventId, Promise<unknown>>
  /** By lane: the settlement that the next one of the lane follows, if the lane has stopped or `afterCommit` is called. */
  readonly stopping: Map<string, Promise<unknown>>
  /** Step 5. Called once for each delivery, with its index in the call, after everything is stored. */
  readonly observe: Observe
  /**
   * The same for an item of a delivery that was split. Answers the outcome that counts for the delivery: a dead item is
   * published first. Undefined where no delivery is split.
   */
  readonly observeItem?: ObserveItem | undefined
}

type Call = Pick<Processing, 'observeItem'> &
  Pick<Processing, 'stores' | 'signals' | 'observe' | 'isResultRead'>

/** @param isParking - The events are only stored. They run later. */
export function startProcessing(
  { breaker, call, inFlight, options }: Omit<GuardParts, 'publisher'>,
  { isResultRead, observe, observeItem, signals, stores }: Call,
  isParking: boolean = options.callerRetries?.runsLater === true,
): Processing {
  return {
    ...{ options, call, breaker, inFlight, stores, signals, isParking, isResultRead },
    ...{ observe, observeItem },
    lanes: new Lanes({ stopsLane, laneFollowerOutcome }),
    settling: new Map(),
    stopping: new Map(),
  }
}

/** Maximum number of events in one shared transaction (design.md §9). */
export const LARGEST_BATCH = 100

export interface SettlingParts extends Pick<GuardParts, 'options' | 'breaker' | 'publisher'> {
  /** Called for each delivery when it has its settlement. */
  readonly onSettled: (outcome: Outcome, index: number) => void
  /** The deliveries come from the inbox, so no broker waits for their settlements. */
  readonly areParked?: boolean
}

/** Step 5 for the deliveries of one call: each gets its settlement as soon as its outcome is known. */
export class CallSettlements {
  /** By the index of the delivery. */
  readonly settlements: Settlement[] = []
  readonly #parts: SettlingParts
  #deliveries: readonly Delivery[]
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
  settleAll(outcome: Outcome): void {
    for (const index of this.#deliveries.keys()) this.#settle(index, outcome, {})
  }

  /** @param deliveries - As the guard runs them. */
  observerWith(
    stores: OpenStores,
    deliveries: readonly Delivery[] = this.#deliveries,
  ): Processing['observe'] {
    this.#stores = stores
    this.#deliveries = deliveries
    return (index, outcome, facts) => {
      if (outcome.kind === 'dead') this.#settleDead(index, outcome, { facts, stores })
      else this.#settle(index, outcome, facts)
    }
  }

  #settleDead(index: number, outcome: Outcome, { facts, stores }: DeadFacts): void {
    const { breaker, options } = this.#parts
    const hasDeadLetterPlace = this.#hooks.hasDeadLetterPlace === true
    const places = { options, breaker, stores, hasDeadLetterPlace }
    const checked = wholeOrDeferred(places, this.#deliveries[index] as Delivery, outcome)
    if (isPromise(checked)) {
      this.checking ??= []
      this.checking.push(checked.then((end) => this.#settle(index, end, facts)))
    } else this.#settle(index, checked, facts)
  }

  #settle(index: number, given: Outcome, facts: Facts): void {
    const { areParked: parked, onSettled, options, publisher } = this.#parts
    const outcome = given.kind === 'abandoned' ? pausedOr(options, given, this.#hooks) : given
    const { eventId, key } = facts
    const delivery = this.#deliveries[index] as Delivery
    const settlement = settlementOf(outcome, options.runtime)
    if (outcome.kind === 'dead') publisher.note(settlement, { delivery, outcome, key, eventId })
    if (outcome.kind === 'duplicate') {
      options.duplicates.note({ key, eventId, secret: this.#stores?.secret })
    }
    // The settlement is set before the outcome is reported.
    this.settlements[index] = settlement
    onSettled(outcome, index)
    this.#hooks.onSettlement?.(index, settlement)
    if (facts.isReported !== true) this.#report(delivery, outcome, { facts, settlement, parked })
  }

  #report(delivery: Delivery, outcome: Outcome, { facts, parked, settlement }: Settled): void {
    observeOutcome(this.#parts.options, this.#stores?.secret, {
      delivery,
      outcome,
      settlement,
      parked,
      key: facts.key,
      eventId: facts.eventId,
      type: facts.type,
      handlerMs: facts.handlerMs,
      timings: facts.timings,
      startedAtMs: this.#startedAtMs,
    })
  }

  itemObserverWith(stores: OpenStores): ObserveItem {
    return (delivery, outcome, facts) => {
      const { breaker, options, publisher } = this.#parts
      this.#report(delivery, outcome, { facts, settlement: settlementOf(outcome, options.runtime) })
      const { engine } = stores
      if (outcome.kind !== 'dead' || outcome.ref === undefined || engine === undefined) {
        return outcome
      }
      const { attempt, ref } = outcome
      // The client's message is the whole one.
      const item = copyDelivery(delivery, { raw: undefined })
      return publisher
        .publishDue({ ref, what: 'publish', delivery: item }, engine.session)
        .then((answer): MaybeAsync<Outcome> => {
          if (answer === undefined) {
            // No adapter publishes it, so the record in Postgres is all that is kept of it.
            const places = { options, breaker, stores, hasDeadLetterPlace: false }
            return wholeOrDeferred(places, delivery, outcome)
          }
          if (answer.kind !== 'retry') return outcome
          const { cause, error } = answer
          const delayMs = retryDelayMs(options, delivery.deliveryCount ?? 1, error)
          return { kind: 'failed', attempt, delayMs, error, cause }
        })
    }
  }
}

interface Settled {
  readonly facts: Facts
  readonly settlement: Settlement
  readonly parked?: boolean | undefined
}

interface DeadFacts {
  readonly facts: Facts
  readonly stores: OpenStores
}

interface Places extends Pick<Processing, 'options' | 'breaker' | 'stores'> {
  /** The adapter publishes dead letters, or the broker moves them. */
  readonly hasDeadLetterPlace: boolean
}

const NOT_STORED =
  'The message is too large to store and there is no other dead-letter place, so it stays with the broker. Raise ' +
  '`maxStoredBytes` of the inbox, or configure `deadLetter` of the adapter.'

/**
 * Where the record is the only place of a dead letter, it must hold the whole message before the original is settled.
 * Otherwise the delivery is deferred.
 */
function wholeOrDeferred(
  { breaker, hasDeadLetterPlace, options, stores }: Places,
  delivery: Delivery,
  outcome: Outcome,
): MaybeAsync<Outcome> {
  const session = stores.engine?.session
  if (outcome.kind !== 'dead' || outcome.ref === undefined || hasDeadLetterPlace) return outcome
  if (session?.isWhole === undefined) return outcome
  const { attempt } = outcome
  const { maxMs: delayMs } = options.retry
  return session.isWhole(outcome.ref, delivery).then(
    (isWhole): Outcome =>
      isWhole
        ? outcome
        : {
            kind: 'not-stored',
            attempt,
            delayMs,
            error: new Error(NOT_STORED),
            cause: 'not-stored',
          },
    (error: unknown) => storeFailure({ breaker, options }, error),
  )
}
