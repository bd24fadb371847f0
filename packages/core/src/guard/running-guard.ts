import {
  type BackgroundWork,
  backgroundOnDemand,
  PAUSE_LOOK_MS,
  startBackground,
} from '../background/background.ts'
import type { Background } from '../background/parked.ts'
import { type Breaker, createBreaker } from '../concurrency/breaker.ts'
import { createInFlight } from '../concurrency/in-flight.ts'
import { RunCount } from '../concurrency/run-count.ts'
import { ABORT_GRACE_MS, type StopSignals, stopSignals } from '../concurrency/stop-signals.ts'
import { endsWithin, track } from '../concurrency/timeout.ts'
import { eventIdOf } from '../identity/event-id.ts'
import type { Publish } from '../model/dead-letter.ts'
import type { Delivery } from '../model/delivery.ts'
import { ConfigurationError, describeError } from '../model/errors.ts'
import type { PartitionAnswer, PartitionClaim } from '../model/fence.ts'
import type {
  Availability,
  Backlog,
  CallerEvent,
  GuardOutage,
  GuardPort,
  GuardSettings,
  Pause,
  RunHooks,
} from '../model/guard-port.ts'
import type { Settlement } from '../model/settlement.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { withItems } from '../receive/marked-items.ts'
import { processDeliveries } from '../run/process.ts'
import {
  CallSettlements,
  type GuardParts,
  type SettlingParts,
  startProcessing,
} from '../run/processing.ts'
import type { OpenInbox, OpenStores } from '../run/stores.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { pausedOutcome } from '../settlement/paused.ts'
import {
  createDeadLetterPublisher,
  type DeadLetterPublisher,
} from '../settlement/publish-dead-letter.ts'
import type { HandlerCall } from '../transaction/engine.ts'
import { Fence } from '../transaction/partition-fence.ts'
import { callerOptions, storesWith } from './as-caller.ts'
import { createStoreOpener, isOfLeases } from './open-stores.ts'
import { settingsOf } from './resolve-options.ts'
import { noteGuard } from './same-name.ts'
import { watch } from './watch.ts'

/** Longest wait for the connections of a store's session to close, ms. */
const CLOSE_MS = 5_000
/** A dead letter waits up to 10 s for its turn and 10 s for its answer. A lease store may never answer. */
const LAST_CALLS_MS = 25_000

/** The open stores, or the outcome of every delivery. */
interface Opening {
  readonly stores: OpenStores | Extract<Outcome, { kind: 'store-down' | 'abandoned' }>
  /** The run is a probe of the breaker, or asks whether a pause is over. */
  readonly endProbe?: ((hasRun: boolean) => void) | undefined
}

/** A running guard: opens its stores, runs deliveries, and closes. */
export class RunningGuard implements GuardPort {
  readonly settings: GuardSettings
  readonly runtime: GuardPort['runtime']
  readonly logger: GuardPort['logger']
  readonly #options: ResolvedOptions
  readonly #breaker: Breaker
  readonly #openStores: () => Promise<OpenStores>
  readonly #publisher: DeadLetterPublisher
  readonly #runs = new RunCount()
  readonly #parts: GuardParts & SettlingParts
  readonly #deadLetters = new Set<Promise<unknown>>()
  readonly #closing = new AbortController()
  readonly #unwatch: () => void
  /** Deliveries that have no settlement yet. */
  #inHand = 0
  #stores: OpenStores | undefined
  #isClosed = false
  /** This guard is no longer one of those that are open. */
  #forget: (() => void) | undefined
  #closed: Promise<void> | undefined
  #background: BackgroundWork | undefined
  #isOnDemand = false
  #runDue: ReturnType<typeof backgroundOnDemand> | undefined
  /** Most calls bring the same signals as the last one. */
  #lastSignals:
    | (Pick<RunHooks, 'abort' | 'stop'> & {
        readonly pause: AbortSignal
        readonly signals: StopSignals
      })
    | undefined

  constructor(options: ResolvedOptions, call: HandlerCall) {
    this.settings = settingsOf(options)
    this.runtime = options.runtime
    this.logger = options.logger
    this.#options = options
    this.#breaker = createBreaker(options.runtime)
    this.#openStores = createStoreOpener(options, call, this.#breaker)
    this.#publisher = createDeadLetterPublisher(options, this.#closing.signal)
    const [breaker, inFlight] = [this.#breaker, createInFlight(options.runtime)]
    const shared = { options, call, breaker, inFlight, publisher: this.#publisher }
    const onSettled: SettlingParts['onSettled'] = ({ kind }) => {
      this.#inHand -= 1
      if (kind === 'parked') this.#background?.wake()
    }
    this.#parts = { ...shared, onSettled }
    this.#unwatch = watch(options, this, () => ({ inHand: this.#inHand, stores: this.#stores }))
  }

  get closing(): AbortSignal {
    return this.#closing.signal
  }

  async claimPartition(claim: PartitionClaim): Promise<PartitionAnswer> {
    const { engine } = await this.#openStores()
    const store = engine?.session.offsets
    if (store === undefined) return { kind: 'no-offsets' }
    const id = eventIdOf(this.#options.consumer, undefined, claim.key)
    const answer = await store.claim(id, claim)
    if (answer.kind !== 'claimed') return answer
    const fence = new Fence(id, claim, { state: answer.state, store })
    return { kind: 'claimed', fence }
  }

  async open(): Promise<void> {
    this.#runs.start()
    try {
      await this.#open()
    } catch (error) {
      // Health says so before the first delivery comes.
      this.#breaker.failed(error)
      throw error
    } finally {
      this.#runs.end()
    }
  }

  async run(deliveries: readonly Delivery[], hooks: RunHooks = {}): Promise<readonly Settlement[]> {
    this.#runs.start()
    let endProbe: Opening['endProbe']
    let hasRun = false
    try {
      const parts = hooks.caller === undefined ? this.#parts : this.#partsFor(hooks.caller)
      const settling = new CallSettlements(parts, deliveries, hooks)
      this.#inHand += deliveries.length
      // A process that was frozen meanwhile has not looked.
      if (this.#isOnDemand) await this.#options.valve.look(PAUSE_LOOK_MS)
      const signals = this.#signals(hooks)
      const opening: Opening = signals.isStopping()
        ? { stores: closing() }
        : (this.#openNow() ?? (await this.#openOrOutcome()))
      const { stores: opened } = opening
      endProbe = opening.endProbe
      if ('kind' in opened) {
        settling.settleAll(opened)
        return settling.settlements
      }
      const { options } = parts
      const stores = hooks.caller === undefined ? opened : storesWith(opened, options)
      const isSplit = options.split !== undefined
      const received = isSplit ? withItems(options, stores, deliveries) : deliveries
      const observe = settling.observerWith(stores, received)
      const observeItem = settling.itemObserverWith(stores)
      const processing = startProcessing(parts, {
        ...{ stores, signals, observe, observeItem, isResultRead: hooks.needsResult },
      })
      await processDeliveries(processing, received)
      if (settling.checking !== undefined) await Promise.all(settling.checking)
      hasRun = true
      return settling.settlements
    } finally {
      endProbe?.(hasRun)
      this.#runs.end()
    }
  }

  #partsFor(caller: CallerEvent): GuardParts & SettlingParts {
    if (this.#parts.call.kind === 'batch') {
      throw new ConfigurationError(
        'Expected a guard made by createGuard: the handler of createBatchGuard answers nothing for one event.',
      )
    }
    return { ...this.#parts, options: callerOptions(this.#options, caller) }
  }

  publishDeadLetter(
    settlement: Settlement,
    publish: Publish,
  ): ReturnType<GuardPort['publishDeadLetter']> {
    return track(this.#deadLetters, this.#publish(settlement, publish))
  }

  onDemand(): ReturnType<GuardPort['onDemand']> {
    this.#isOnDemand = true
    const stopping = this.#background?.stop()
    return async (hooks = {}) => {
      this.#runs.start()
      // A process that is frozen between two calls has no other time for it.
      await Promise.all([this.#doDue(hooks, stopping), this.flush()]).finally(() =>
        this.#runs.end(),
      )
    }
  }

  async #doDue(hooks: RunHooks, stopping: Promise<void> | undefined): Promise<void> {
    await stopping
    await this.#options.valve.look(PAUSE_LOOK_MS)
    const stores = this.#stores
    if (stores?.engine === undefined || this.#breaker.state() !== undefined) return
    this.#runDue ??= backgroundOnDemand(this.#backgroundOf(stores))
    await this.#runDue(this.#signals(hooks))
  }

  registerPublisher(...args: Parameters<GuardPort['registerPublisher']>): () => void {
    return this.#publisher.register(...args)
  }

  async flush(): Promise<void> {
    await this.#stores?.leases?.byNeed?.drain()
  }

  availability(): Availability {
    const down = this.#options.valve.state() ?? this.#breaker.state()
    return down === undefined ? { kind: 'available' } : { kind: 'down', ...down }
  }

  pause(pause: Pause): void {
    this.#options.valve.pause(pause)
  }

  resume(): void {
    this.#options.valve.resume()
  }

  onPaused(listener: () => void): () => void {
    return this.#options.valve.onShut(listener)
  }

  outages(): readonly GuardOutage[] {
    const down = this.#breaker.state()
    const isOfInbox = this.settings.hasInbox && !isOfLeases(down?.error)
    const [inbox, opening] = isOfInbox ? [down] : [undefined, down]
    const leases = this.#stores?.leases?.outage() ?? opening
    return [
      ...(inbox === undefined ? [] : [{ dependency: 'inbox' as const, error: inbox.error }]),
      ...(leases === undefined ? [] : [{ dependency: 'leases' as const, error: leases.error }]),
      ...this.#publisher.outages(),
    ]
  }

  backlog(): Backlog | undefined {
    return this.#background?.backlog()
  }

  /** A second call waits for the first one: only that one knows when the connections are closed. */
  close(): Promise<void> {
    this.#closed ??= this.#close().finally(() => {
      this.#options.duplicates.write()
      this.#forget?.()
      this.#unwatch()
    })
    return this.#closed
  }

  async #close(): Promise<void> {
    this.#closing.abort()
    this.#options.valve.close()
    const { deadlineMs } = this.settings
    const ended = Promise.all([this.#background?.stop(), this.#runs.idle()])
    // The deadline bounds every function of the user. A store may still not have answered.
    if (!(await endsWithin(this.runtime, ended, deadlineMs + ABORT_GRACE_MS))) {
      this.logger.warn(
        { deadlineMs, runs: this.#runs.running },
        'the guard was closed while runs had not ended: close its clients, and the broker redelivers their messages',
      )
      // Connections of runs that have not ended are closed with their runs.
      void this.#stores?.leases?.close()
      void this.#closeSession()
      return
    }
    // Waits for calls of the last runs that are still in progress: the user may close the pool or client next.
    const { leases, reads = [] } = this.#stores ?? {}
    const publishing = [...this.#deadLetters, this.#publisher.idle()]
    const lastCalls = [...publishing, ...reads, leases?.renewer.idle()]
    await endsWithin(this.runtime, Promise.allSettled(lastCalls), LAST_CALLS_MS)
    if (leases !== undefined) await endsWithin(this.runtime, leases.close(), CLOSE_MS)
    await endsWithin(this.runtime, this.#closeSession(), CLOSE_MS)
  }

  async #closeSession(): Promise<void> {
    const { engine } = this.#stores ?? {}
    this.#isClosed = true
    this.#stores = undefined
    try {
      await engine?.session.close?.()
    } catch (error) {
      this.logger.warn(
        { err: describeError(error) },
        'the connections of the guard were not closed',
      )
    }
  }

  async #publish(
    settlement: Settlement,
    publish: Publish,
  ): ReturnType<GuardPort['publishDeadLetter']> {
    const { engine } = await this.#openStores()
    return this.#publisher.publish(settlement, publish, engine?.session)
  }

  async #open(): Promise<OpenStores> {
    const stores = await this.#openStores()
    const pauses = stores.engine?.session.pauses
    if (pauses !== undefined) await this.#options.valve.attach(pauses)
    if (this.#stores === undefined) this.#breaker.succeeded()
    this.#stores = stores
    // An opening that outlives the bound of close().
    if (this.#isClosed) void this.#closeSession()
    if (stores.engine !== undefined && !this.#isClosed)
      this.#forget ??= noteGuard(this.#options, this.#parts.call, stores.secret)
    const isStarted = this.#background !== undefined || this.#isOnDemand
    if (!isStarted && !this.#closing.signal.aborted && stores.engine !== undefined) {
      this.#background = startBackground(this.#backgroundOf(stores))
    }
    return stores
  }

  #backgroundOf(stores: OpenInbox): Background {
    return { ...this.#parts, stores: { ...stores, leases: undefined } }
  }

  #signals({ abort, budgetMs, stop }: RunHooks): StopSignals {
    const last = this.#lastSignals
    const pause = this.#options.valve.signal
    const isSame = last?.abort === abort && last?.stop === stop && last?.pause === pause
    if (last !== undefined && budgetMs === undefined && isSame) return last.signals
    const stops = [this.#closing.signal, stop, pause]
    if (budgetMs === undefined) {
      const signals = stopSignals(stops, abort)
      this.#lastSignals = { abort, stop, pause, signals }
      return signals
    }
    const endsAtMs = this.runtime.monotonic() + budgetMs
    return stopSignals(stops, abort, (limitMs) =>
      Math.max(1, Math.min(limitMs, endsAtMs - this.runtime.monotonic())),
    )
  }

  /** The stores, if they are open and available. */
  #openNow(): Opening | undefined {
    const isOpen = this.#options.valve.isOpen && this.#breaker.state() === undefined
    const stores = isOpen ? this.#stores : undefined
    return stores && { stores }
  }

  /** The stores, or the outcome of every delivery while the stores are unavailable. */
  async #openOrOutcome(): Promise<Opening> {
    const { valve } = this.#options
    const entry = valve.enter()
    if (entry === 'shut') return { stores: pausedOutcome(this.#options) }
    const opening = await this.#openAvailable()
    if (entry === 'open') return opening
    const endProbe = (hasRun: boolean): void => {
      opening.endProbe?.(hasRun)
      valve.probed(hasRun)
    }
    return { ...opening, endProbe }
  }

  async #openAvailable(): Promise<Opening> {
    const admission = this.#breaker.admit()
    if (admission !== 'go') {
      const error = this.#breaker.state()?.error
      return { stores: { kind: 'store-down', delayMs: admission, error, cause: 'breaker-open' } }
    }
    const endProbe = this.#breaker.currentProbe()
    try {
      return { stores: await this.#open(), endProbe }
    } catch (error) {
      this.#breaker.failed(error)
      this.logger.error(
        { err: describeError(error) },
        'the stores of the guard could not be opened: check the servers and the options',
      )
      const retryAt = this.#breaker.state()?.retryAt ?? this.runtime.now()
      const delayMs = retryAt - this.runtime.now()
      return { stores: { kind: 'store-down', delayMs, error, cause: 'store-error' } }
    }
  }
}

function closing(): Extract<Outcome, { kind: 'abandoned' }> {
  return { kind: 'abandoned', reason: 'closing' }
}
