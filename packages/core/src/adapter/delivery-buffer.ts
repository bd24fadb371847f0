import { andThen, type MaybeAsync } from '../concurrency/maybe-async.ts'
import { onNextTurn } from '../concurrency/next-turn.ts'
import { RunCount } from '../concurrency/run-count.ts'
import type { GuardPort } from '../model/guard-port.ts'
import type { Settlement } from '../model/settlement.ts'
import { type Delivered, SharedSlots } from './ordering.ts'
import { processAndSettle } from './process-and-settle.ts'
import type { RunSettings } from './run-options.ts'

/** Which of the pending deliveries may start in one call of the guard. */
export interface Startable<Each> {
  /** Deliveries of one group run in order and share a slot. */
  readonly groups: readonly (readonly Each[])[]
  /** Deliveries from the head of the queue that were considered. */
  readonly considered: number
  /** Considered deliveries that cannot start yet; they keep their place at the head. */
  readonly blocked: readonly Each[]
}

/** Deliveries may start as long as neither is exceeded. */
export interface StartLimits {
  readonly groups: number
  readonly deliveries: number
}

export interface DeliveryBufferOptions<Each extends Delivered, Answer> {
  readonly port: GuardPort
  readonly settings: Pick<RunSettings, 'batchSize' | 'lingerMs'>
  /** `stop`: start nothing more. `abort`: running handlers had their time. */
  readonly signals: { readonly stop: AbortSignal; readonly abort: AbortSignal }
  /** As in `RunHooks`. */
  readonly hasDeadLetterPlace: boolean
  readonly findStartable: (pending: readonly Each[], limits: StartLimits) => Startable<Each>
  /** Whether the broker may bring more before one of the received deliveries is settled. Asked while a batch waits. */
  readonly hasRoom: () => boolean
  readonly onStart?: ((each: Each) => void) | undefined
  /** Tells the broker. Must neither throw nor reject. */
  readonly settle: (each: Each, settlement: Settlement) => MaybeAsync<Answer>
  /** The settlement is stored; the broker is told next. */
  readonly onKnown: (each: Each, settlement: Settlement, elapsedMs: number) => void
  /** The broker was told. */
  readonly onSettled: (each: Each, settlement: Settlement, answer: Answer) => void
  /** Slots were freed and refilled: there may be room to receive more. */
  readonly onRefilled?: (() => void) | undefined
}

/**
 * The unsettled deliveries: pending, running, settling.
 *
 * A delivery waits here until the guard has a slot for it, and in a guard of batches until its batch is full or the
 * first of the batch has waited for `lingerMs`. A batch is also full if the free slots take no more, or if the broker
 * brings no more. All slots that one turn of the event loop frees are filled by one call of the guard.
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
  #pending: Each[] = []
  #running = 0
  #settling = 0
  /** Slots of the guard that its calls occupy. */
  #busySlots = 0
  #isLingerOver = false
  #cancelLinger: (() => void) | undefined

  constructor(options: DeliveryBufferOptions<Each, Answer>) {
    this.#options = options
    this.#isBatch = options.port.settings.transaction === 'batch'
  }

  /** Deliveries whose settlement is not known: pending or running. */
  get undecided(): number {
    return this.#pending.length + this.#running
  }

  /** Deliveries that the guard was not handed yet. */
  get unstarted(): number {
    return this.#pending.length
  }

  /** Deliveries whose settlement the broker has not taken yet. */
  get settling(): number {
    return this.#settling
  }

  add(deliveries: readonly Each[]): void {
    const { port, settings } = this.#options
    this.#pending.push(...deliveries)
    if (settings.lingerMs === 0) this.#isLingerOver = true
    else this.#cancelLinger ??= port.runtime.setTimer(() => this.#endLinger(), settings.lingerMs)
  }

  /** Starts as much as the guard has slots for. */
  dispatch(): void {
    const { signals } = this.#options
    while (!signals.stop.aborted && this.#pending.length > 0) {
      const groups = this.#takeStartable()
      if (groups.length === 0) return
      this.#run(groups)
    }
    this.#isLingerOver = false
    this.#cancelLinger?.()
    this.#cancelLinger = undefined
  }

  /** Takes back pending deliveries: all of them, or those of which `isMeant` is true. */
  takeBack(isMeant: (each: Each) => boolean = () => true): readonly Each[] {
    const taken = this.#pending.filter(isMeant)
    this.#pending = this.#pending.filter((each) => !isMeant(each))
    if (this.#pending.length === 0) this.dispatch()
    return taken
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

  #endLinger(): void {
    this.#cancelLinger = undefined
    this.#isLingerOver = true
    this.dispatch()
  }

  /** Nothing while waiting for a fuller batch is allowed. */
  #takeStartable(): readonly (readonly Each[])[] {
    const { port, settings, findStartable, hasRoom } = this.#options
    const free = port.settings.concurrency - this.#busySlots
    if (free <= 0) return []
    const deliveries = settings.batchSize
    const limits = { groups: this.#isBatch ? Number.POSITIVE_INFINITY : free, deliveries }
    const { groups, considered, blocked } = findStartable(this.#pending, limits)
    const isFull =
      considered - blocked.length >= deliveries ||
      considered < this.#pending.length ||
      groups.length >= limits.groups
    if (!(isFull || this.#isLingerOver || !hasRoom())) return []
    this.#pending.splice(0, considered, ...blocked)
    return groups
  }

  #run(groups: readonly (readonly Each[])[]): void {
    const { port, signals, hasDeadLetterPlace, onStart, onKnown } = this.#options
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
      onKnown(each, settlement, port.runtime.monotonic() - startedAtMs)
      this.dispatchSoon()
      return this.#settle(each, settlement)
    }
    this.track(processAndSettle(port, batch, { ...signals, hasDeadLetterPlace, settle }))
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
