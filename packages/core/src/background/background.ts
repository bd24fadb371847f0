import { type StopSignals, stopSignals } from '../concurrency/stop-signals.ts'
import { track } from '../concurrency/timeout.ts'
import { describeError } from '../model/errors.ts'
import type { Backlog } from '../model/guard-port.ts'
import type { DueEvent } from '../model/inbox.ts'
import type { Runtime } from '../model/runtime.ts'
import { AsyncResource } from '../node.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { type Background, POLL_LIMIT, runDue, takeDue } from './parked.ts'

/** Interval between two searches for parked events, ms, with jitter (design.md §6). */
const POLL_MS = 5_000
/**
 * Interval between two tries to record late releases, ms. After five seconds another process takes the run for crashed.
 */
const RELEASE_MS = 1_000
/** Pause between two steps of a sweep, ms, so that the sweep never competes with the consumers. */
const SWEEP_STEP_MS = 200
/** Interval between two heartbeats, ms. */
const HEARTBEAT_MS = 30_000
/** Interval between two looks at the tables of a guard that runs its events later, ms. */
const LOOK_MS = 5_000
/** Interval between two looks at the pause of the consumer, ms: every process has to know it within two seconds. */
export const PAUSE_LOOK_MS = 1_500
/** Pause after a whole sweep, or when another process sweeps, ms. */
const SWEEP_REST_MS = 10 * 60_000

/**
 * The asynchronous context in which this module was loaded. Background work runs in it, and not in that of the delivery
 * that started or woke it: its handlers would find the tenant or the trace of a request that is over.
 */
const PROGRAM = new AsyncResource('onceward')

/** One kind of background work. Returns the pause until its next call, ms. */
type Task = () => Promise<number>

/** Parked events, the sweep and late releases. */
function tasksOf(context: Background, isMoreDue: () => Promise<boolean>): readonly Task[] {
  const { runtime } = context.options
  const { engine } = context.stores
  const poll: Task = async () => ((await isMoreDue()) ? 0 : POLL_MS * (0.75 + runtime.random() / 2))
  const sweep: Task = async () => {
    const step = await guarded(context, () => engine.session.sweep())
    return step?.finished === false ? SWEEP_STEP_MS : SWEEP_REST_MS * (0.5 + runtime.random())
  }
  const release: Task = async () => {
    await engine.lateReleases.flush()
    return RELEASE_MS
  }
  return [poll, sweep, release]
}

/** The background work of a guard, while it runs. */
export interface BackgroundWork {
  /** Looks for parked events now. */
  wake(): void
  /** What waits, if the guard runs its events later. Undefined before the first look. */
  backlog(): Backlog | undefined
  /** Ends all work. Resolves when the runs that have begun are over. */
  stop(): Promise<void>
}

/** Starts the guard's background work: parked events, the sweep and late releases. */
export function startBackground(context: Background): BackgroundWork {
  const { callerRetries, runtime } = context.options
  const { session } = context.stores.engine
  const stop = new AbortController()
  const wake = (): void => polling?.wake()
  const wakeIn = (delayMs: number): void => polling?.wakeIn(delayMs)
  const poller = new Poller({
    background: context,
    signals: () => stopSignals([stop.signal, context.options.valve.signal]),
    guarded: (task) => guarded(context, task),
    ...{ wake, wakeIn },
  })
  let backlog: Backlog | undefined
  const look: Task = async () => {
    const figures = await guarded(context, async () => session.figures?.())
    backlog = figures && { events: figures.parked, dueForMs: figures.parkedForMs }
    return LOOK_MS
  }
  const tasks = [
    ...tasksOf(context, () => poller.poll()),
    ...(callerRetries?.runsLater === true ? [look] : []),
    ...heartbeatsOf(context),
    ...pauseLooksOf(context),
  ]
  const loops = tasks.map((task) => every(runtime, task))
  const [polling] = loops
  return {
    wake,
    backlog: () => backlog,
    stop: async () => {
      stop.abort()
      await Promise.all(loops.map((loop) => loop.stop()))
      await poller.idle()
    },
  }
}

/** Looks whether somebody has paused or resumed the consumer. */
function pauseLooksOf({ options: { valve }, stores: { engine } }: Background): readonly Task[] {
  const session: Partial<typeof engine.session> | undefined = engine.session
  if (session?.pauses === undefined) return []
  const look: Task = async () => {
    await valve.look()
    return PAUSE_LOOK_MS
  }
  return [look]
}

/**
 * Heartbeats are for operators: a guard whose heartbeats fail works on. A process that is frozen between two calls sends
 * none, because its silence would mean nothing.
 */
function heartbeatsOf({ options: { logger }, stores: { engine } }: Background): readonly Task[] {
  // In tests of other tasks there is none.
  const session: Partial<typeof engine.session> | undefined = engine.session
  let isFailing = false
  const heartbeat: Task = async () => {
    try {
      await session?.heartbeat?.()
      isFailing = false
    } catch (error) {
      // An outage of the store is reported by whoever needs the store.
      const isReported = isFailing || session?.diagnose?.(error) === 'store'
      logger[isReported ? 'debug' : 'warn'](
        { err: describeError(error) },
        'the heartbeat was not stored, so `status` does not show this worker: run `npx onceward doctor`',
      )
      isFailing ||= !isReported
    }
    return HEARTBEAT_MS
  }
  return session?.heartbeat === undefined ? [] : [heartbeat]
}

/**
 * The same background work without a timer, for a process that is frozen between two calls. Each call of the returned
 * function does what is due, one after the other. Late releases are always due.
 */
export function backgroundOnDemand(context: Background): (signals: StopSignals) => Promise<void> {
  const { runtime } = context.options
  const dueAtMs = [0, 1].map(() => runtime.monotonic() + runtime.random() * 1_000)
  return async (signals) => {
    const isMoreDue = async (): Promise<boolean> => {
      let isMore = false
      const wake = (): void => {
        isMore = true
      }
      const poller = new Poller({
        background: context,
        signals: () => signals,
        guarded: (task) => guarded(context, task),
        ...{ wake, wakeIn: noTimer },
      })
      if (await poller.poll()) isMore = true
      // Nothing may run after this call, because the process is frozen then.
      await poller.idle()
      return isMore
    }
    const [poll, sweep, release] = tasksOf(context, isMoreDue) as [Task, Task, Task]
    await release()
    for (const [index, task] of [poll, sweep].entries()) {
      if (signals.isStopping() || runtime.monotonic() < Number(dueAtMs[index])) continue
      const pauseMs = await task()
      dueAtMs[index] = runtime.monotonic() + pauseMs
    }
  }
}

const noTimer = (): void => undefined

interface Loop {
  /** Calls the task now, or once more directly after the call in progress. */
  wake(): void
  /** Calls the task after `delayMs`, if its next call is later. */
  wakeIn(delayMs: number): void
  /** Resolves when the call in progress is over. */
  stop(): Promise<void>
}

/**
 * Calls `task` repeatedly. `task` returns the pause until its next call, ms. The timer never keeps the process alive.
 */
function every(runtime: Runtime, task: Task): Loop {
  let isStopped = false
  let isCalling = false
  let isWoken = false
  let current: Promise<void> = Promise.resolve()
  let cancel: (() => void) | undefined
  let nextAtMs = 0
  /** The instants for which somebody asked. */
  let askedAtMs: readonly number[] = []
  const callHere = (): void => {
    isCalling = true
    isWoken = false
    current = task().then((pauseMs) => {
      isCalling = false
      if (isWoken && !isStopped) call()
      else next(pauseMs)
    })
  }
  const call = (): void => PROGRAM.runInAsyncScope(callHere)
  const next = (pauseMs: number): void => {
    if (isStopped) return
    const nowMs = runtime.monotonic()
    askedAtMs = askedAtMs.filter((atMs) => atMs > nowMs)
    nextAtMs = Math.min(nowMs + pauseMs, ...askedAtMs)
    cancel = runtime.setTimer(call, nextAtMs - nowMs, { keepAlive: false })
  }
  next(runtime.random() * 1_000)
  return {
    wake: () => {
      isWoken = true
      if (isStopped || isCalling) return
      cancel?.()
      call()
    },
    wakeIn: (delayMs) => {
      const atMs = runtime.monotonic() + delayMs
      // Later ones are left to the calls at intervals, so that the list stays short.
      if (isStopped || delayMs > POLL_MS) return
      askedAtMs = [...askedAtMs, atMs]
      if (isCalling || atMs >= nextAtMs) return
      cancel?.()
      next(delayMs)
    },
    stop: () => {
      isStopped = true
      cancel?.()
      return current
    },
  }
}

async function guarded<Answer>(
  { options: { logger } }: Background,
  task: () => Promise<Answer>,
): Promise<Answer | undefined> {
  try {
    return await task()
  } catch (error) {
    logger.warn(
      { err: describeError(error) },
      'background work failed and is retried: check the database of the inbox',
    )
    return undefined
  }
}

/** Calls `task`, and logs an error. */
export type Guarded = <Answer>(task: () => Promise<Answer>) => Promise<Answer | undefined>

interface PollerParts {
  readonly background: Background
  /** Those of the runs that begin now. */
  readonly signals: () => StopSignals
  readonly guarded: Guarded
  /** Asks for the next poll. */
  readonly wake: () => void
  /** Asks for a poll after `delayMs`, if the next one is later. */
  readonly wakeIn: (delayMs: number) => void
}

/**
 * Runs parked events side by side: a poll does not wait for the runs of earlier polls, and an event that takes long
 * holds one place only.
 */
export class Poller {
  readonly #parts: PollerParts
  readonly #places: number
  /** The ids of the events whose runs have not ended. */
  readonly #taken = new Set<string>()
  /** The ids of those that ended since the last search began: it may have read them before. */
  readonly #left = new Set<string>()
  readonly #runs = new Set<Promise<unknown>>()
  /** More events were due than places were free. */
  #isMoreDue = false

  constructor(parts: PollerParts) {
    this.#parts = parts
    const { options, stores } = parts.background
    // A guard that runs all its events later gets no deliveries that should come first.
    this.#places =
      options.callerRetries?.runsLater === true
        ? Math.max(POLL_LIMIT, stores.engine.slots.size)
        : POLL_LIMIT
  }

  /** Looks once, and starts what is due. Answers whether to look again at once. */
  async poll(): Promise<boolean> {
    const { background, guarded } = this.#parts
    if (!background.options.valve.isOpen) return false
    const free = this.#places - this.#taken.size
    this.#isMoreDue = true
    if (free <= 0) return false
    this.#left.clear()
    const due = await guarded(() => takeDue(background, this.#places))
    this.#isMoreDue = false
    if (due === undefined) return false
    const { found, toRun } = due
    const waiting = toRun.filter(({ ref }) => !this.#taken.has(ref.id) && !this.#left.has(ref.id))
    const isFull = found === this.#places
    this.#isMoreDue = isFull || waiting.length > free
    if (waiting.length > 0) void track(this.#runs, this.#run(waiting.slice(0, free)))
    // Dead letters to publish are not offered again for a while.
    return isFull && toRun.length < found
  }

  /** Resolves when no run is in progress. */
  async idle(): Promise<void> {
    await Promise.all(this.#runs)
  }

  async #run(events: readonly DueEvent[]): Promise<void> {
    const { background, guarded, signals } = this.#parts
    for (const { ref } of events) this.#taken.add(ref.id)
    await guarded(() =>
      runDue(background, events, {
        signals: signals(),
        onEnded: ({ id }, outcome) => this.#ended(id, outcome),
      }),
    )
    for (const { ref } of events) this.#leave(ref.id)
  }

  /** An event that got no outcome is still due, so only one that ended is followed by the next poll at once. */
  #ended(id: string, outcome: Outcome): void {
    this.#leave(id)
    if (outcome.kind === 'failed' || outcome.kind === 'deferred') {
      this.#parts.wakeIn(outcome.delayMs)
    }
    // The next poll publishes the dead letter.
    if (outcome.kind === 'dead') this.#parts.wake()
    // Not one poll for each event, because each reads all that is due.
    if (this.#isMoreDue && this.#taken.size <= this.#places / 2) this.#parts.wake()
  }

  #leave(id: string): void {
    if (this.#taken.delete(id)) this.#left.add(id)
  }
}
