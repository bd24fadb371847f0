import { type StopSignals, stopSignals } from '../concurrency/stop-signals.ts'
import { describeError } from '../model/errors.ts'
import type { Runtime } from '../model/runtime.ts'
import { type Background, POLL_LIMIT, runParked } from './parked.ts'

/** Interval between two searches for parked events, ms, with jitter (design.md §6). */
const POLL_MS = 5_000
/**
 * Interval between two tries to record late releases, ms. After five seconds another process takes the run for crashed.
 */
const RELEASE_MS = 1_000
/** Pause between two steps of a sweep, ms, so that the sweep never competes with the consumers. */
const SWEEP_STEP_MS = 200
/** Pause after a whole sweep, or when another process sweeps, ms. */
const SWEEP_REST_MS = 10 * 60_000

/** One kind of background work. Returns the pause until its next call, ms. */
type Task = () => Promise<number>

/** Parked events, the sweep and late releases. */
function tasksOf(context: Background, signals: StopSignals): readonly Task[] {
  const { runtime } = context.options
  const { engine } = context.stores
  const poll: Task = async () => {
    const polled = await guarded(context, () => runParked(context, signals))
    // More may be due, but only a poll that ended something may be followed by the next one at once.
    const isMoreDue = polled !== undefined && polled.found === POLL_LIMIT && polled.ended > 0
    return isMoreDue ? 0 : POLL_MS * (0.75 + runtime.random() / 2)
  }
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

/**
 * Starts the guard's background work: parked events, the sweep and late releases. The returned function ends all three.
 */
export function startBackground(context: Background): () => Promise<void> {
  const stop = new AbortController()
  const tasks = tasksOf(context, stopSignals([stop.signal]))
  const stops = tasks.map((task) => every(context.options.runtime, task))
  return async () => {
    stop.abort()
    await Promise.all(stops.map((stopTask) => stopTask()))
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
    const [poll, sweep, release] = tasksOf(context, signals) as [Task, Task, Task]
    await release()
    for (const [index, task] of [poll, sweep].entries()) {
      if (signals.isStopping() || runtime.monotonic() < Number(dueAtMs[index])) continue
      const pauseMs = await task()
      dueAtMs[index] = runtime.monotonic() + pauseMs
    }
  }
}

/**
 * Calls `task` repeatedly. `task` returns the pause until its next call, ms. The timer never keeps the process alive.
 */
function every(runtime: Runtime, task: Task): () => Promise<void> {
  let stopped = false
  let current: Promise<void> = Promise.resolve()
  let cancel: (() => void) | undefined
  const next = (delayMs: number): void => {
    if (stopped) return
    cancel = runtime.setTimer(
      () => {
        current = task().then(next)
      },
      delayMs,
      { keepAlive: false },
    )
  }
  next(runtime.random() * 1_000)
  return () => {
    stopped = true
    cancel?.()
    return current
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
