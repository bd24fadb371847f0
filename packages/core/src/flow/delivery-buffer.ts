import { andThen, type MaybeAsync } from '../concurrency/maybe-async.ts'
import { onNextTurn } from '../concurrency/next-turn.ts'
import { RunCount } from '../concurrency/run-count.ts'
import type { GuardPort } from '../model/guard-port.ts'
import type { Settlement } from '../model/settlement.ts'
import { type Delivered, SharedSlots } from './ordering.ts'
import { QUICK_MS } from './prefetch.ts'
import { processAndSettle } from './process-and-settle.ts'

/** The deliveries of one call of the guard. */
export interface GuardCall<Each> {
  /** Deliveries of one group run in order and share a slot. */
  readonly groups: readonly (readonly Each[])[]
  /** In place of the signals of the buffer. */
  readonly signals?: RunSignals | undefined
  /** All deliveries of the call are settled. Must not reject. */
  readonly onEnded?: (() => MaybeAsync<void>) | undefined
}

/** `stop`: start nothing more. `abort`: running handlers had their time. */
export interface RunSignals {
  readonly stop: AbortSignal
  readonly abort: AbortSignal
}

/** Deliveries may start as long as neither is exceeded. */
export interface StartLimits {
  readonly groups: number
  readonly deliveries: number
}

/** The deliveries that wait for a slot. */
export interface Pending<Each> {
  /** Takes the deliveries of the next call, in the order in which they start. Undefined if none may start now. */
  take(limits: StartLimits): GuardCall<Each> | undefined
}

export interface DeliveryBufferOptions<Each extends Delivered, Answer> {
  readonly port: GuardPort
  readonly settings: { readonly batchSize: number }
  readonly signals: RunSignals
  /** As in `RunHooks`. */
  readonly hasDeadLetterPlace: boolean
  readonly pending: Pending<Each>
  readonly onStart?: ((each: Each) => void) | undefined
  /** Settles with the broker. Must neither throw nor reject. */
  readonly settle: (each: Each, settlement: Settlement) => MaybeAsync<Answer>
  /** The settlement is stored; the call to the broker is next. */
  readonly onKnown: (each: Each, settlement: Settlement, elapsedMs: number) => void
  /** The broker has the settlement. */
  readonly onSettled: (each: Each, settlement: Settlement, answer: Answer) => void
  /** Slots were freed and refilled: there may be room to receive more. */
  readonly onRefilled?: (() => void) | undefined
}

/**
 * The unsettled deliveries, from their start until the broker has their settlement.
 *
 * A delivery is taken from the pending ones when the guard has a slot for it. All slots that one turn of the event loop
 * frees are filled by one call of the guard.
 */
export class DeliveryBuffer<Each extends Delivered, Answer> {
  /** Dispatches at the end of this turn of the event loop. */
  readonly dispatchSoon: () => void = oncePerTurn(() => {
    this.dispatch()
    this.#options.onRefilled?.()
  })
  readonly #options: DeliveryBufferOptions<Each, Answer>
  readonly #isBatch: boolean
  readonly #tasks = new RunCount()
  #running = 0
  #settling = 0
  /** Slots of the guard that its calls occupy. */
  #busySlots = 0
  /** The last message had its outcome soon after its start. */
  #isQuick = false

  constructor(options: DeliveryBufferOptions<Each, Answer>) {
    this.#options = options
    this.#isBatch = options.port.settings.transaction === 'batch'
  }

  /** Deliveries that the guard was handed and whose settlement is not known. */
  get running(): number {
    return this.#running
  }

  /** Deliveries whose settlement the broker has not taken yet. */
  get settling(): number {
    return this.#settling
  }

  /** Starts as much as the guard takes. One that waits there cannot be given back, so only quick ones may wait. */
  dispatch(): void {
    const { port, settings, signals, pending } = this.#options
    while (!signals.stop.aborted) {
      const { concurrency, inHand = concurrency, waitsInHand } = port.settings
      const most = this.#isQuick || waitsInHand ? inHand : concurrency
      const free = most - this.#busySlots
      if (free <= 0) return
      const groups = this.#isBatch ? Number.POSITIVE_INFINITY : free
      const call = pending.take({ groups, deliveries: settings.batchSize })
      if (call === undefined) return
      this.#run(call)
    }
  }

  /** Settles a delivery that the guard is not handed. */
  settle(each: Each, settlement: Settlement): void {
    this.#settling += 1
    this.#tasks.start()
    void andThen(this.#settle(each, settlement), () => this.#tasks.end())
  }

  /** Counts a task as unsettled until it ends, and `settling` deliveries with it. */
  track(task: Promise<unknown>, settling = 0): void {
    this.#settling += settling
    this.#tasks.start()
    const ended = (): void => {
      this.#settling -= settling
      this.#tasks.end()
    }
    void task.then(ended, ended)
  }

  /** Resolves when everything is settled. */
  async ended(): Promise<void> {
    while (this.#tasks.running > 0) await this.#tasks.idle()
  }

  #run({ groups, signals = this.#options.signals, onEnded }: GuardCall<Each>): void {
    const { port, hasDeadLetterPlace, onStart, onKnown } = this.#options
    const batch = groups.flat()
    const slots = new SharedSlots(this.#isBatch ? [batch] : groups)
    const startedAtMs = port.runtime.monotonic()
    this.#busySlots += slots.busy
    this.#running += batch.length
    if (onStart !== undefined) for (const each of batch) onStart(each)
    const settle = (each: Each, settlement: Settlement): MaybeAsync<void> => {
      this.#running -= 1
      this.#settling += 1
      if (slots.known(each)) this.#busySlots -= 1
      const elapsedMs = port.runtime.monotonic() - startedAtMs
      this.#isQuick = elapsedMs < QUICK_MS
      onKnown(each, settlement, elapsedMs)
      this.dispatchSoon()
      return this.#settle(each, settlement)
    }
    const { stop, abort } = signals
    const call = processAndSettle(port, batch, { stop, abort, hasDeadLetterPlace, settle })
    this.track(onEnded === undefined ? call : call.then(onEnded).then(this.dispatchSoon))
  }

  /** What is known at once counts for the next delivery at once. */
  #settle(each: Each, settlement: Settlement): MaybeAsync<void> {
    return andThen(this.#options.settle(each, settlement), (answer) => {
      this.#settling -= 1
      this.#options.onSettled(each, settlement, answer)
      this.dispatchSoon()
    })
  }
}

/** A callback that runs at the end of this turn of the event loop, once, however often it is asked for. */
export function oncePerTurn(callback: () => void): () => void {
  let isDue = false
  return () => {
    if (isDue) return
    isDue = true
    onNextTurn(() => {
      isDue = false
      callback()
    })
  }
}
