import { AsyncResource } from 'node:async_hooks'
import { type StopSignals, stopSignals } from '../concurrency/stop-signals.ts'
import { describeError } from '../model/errors.ts'
import type { Backlog } from '../model/guard-port.ts'
import type { Runtime } from '../model/runtime.ts'
import type { Background } from './parked.ts'
import { Poller } from './poller.ts'

/** Interval between two searches for parked events, ms, with jitter (design.md §6). */
const POLL_MS = 5_000
/**
 * Interval between two tries to record late releases, ms. After five seconds another process takes the run for crashed.
 */
const RELEASE_MS = 1_000
/** Pause between two steps of a sweep, ms, so that the sweep never competes with the consumers. */
const SWEEP_STEP_MS = 200
/** Interval between two looks at the tables of a guard that runs its events later, ms. */
const LOOK_MS = 5_000
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
    signals: stopSignals([stop.signal]),
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
        signals,
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
