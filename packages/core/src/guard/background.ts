import { stopSignals } from '../concurrency/stop-signals.ts'
import { describeError } from '../model/errors.ts'
import type { Runtime } from '../model/runtime.ts'
import { type Background, POLL_LIMIT, runParked } from './parked.ts'

/** design.md §6: parked events are looked for this often, with jitter. */
const POLL_MS = 5_000
/** A run that is not given back within five seconds looks like one in which a process died, ms. */
const RELEASE_MS = 1_000
/** Pause between two steps of a sweep, ms, so that it never competes with the consumers. */
const SWEEP_STEP_MS = 200
/** Pause after a whole sweep, or when another process sweeps, ms. */
const SWEEP_REST_MS = 10 * 60_000

/** What a guard does beside its deliveries: parked events and the sweep. The answer ends both. */
export function startBackground(context: Background): () => Promise<void> {
  const { runtime } = context.options
  const { engine } = context.stores
  const stop = new AbortController()
  const signals = stopSignals([stop.signal])
  const stopPolling = every(runtime, async () => {
    const found = await guarded(context, () => runParked(context, signals))
    return found === POLL_LIMIT ? 0 : POLL_MS * (0.75 + runtime.random() / 2)
  })
  const stopSweeping = every(runtime, async () => {
    const step = await guarded(context, () => engine.session.sweep())
    return step?.finished === false ? SWEEP_STEP_MS : SWEEP_REST_MS * (0.5 + runtime.random())
  })
  const stopReleasing = every(runtime, async () => {
    await engine.lateReleases.flush()
    return RELEASE_MS
  })
  return async () => {
    stop.abort()
    await Promise.all([stopPolling(), stopSweeping(), stopReleasing()])
  }
}

/** Calls `task` again and again, after the milliseconds that it answers; it never keeps the process alive. */
function every(runtime: Runtime, task: () => Promise<number>): () => Promise<void> {
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
    logger.warn({ err: describeError(error) }, 'background work failed, it is tried again')
    return undefined
  }
}
