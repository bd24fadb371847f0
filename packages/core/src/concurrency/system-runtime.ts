import type { EpochMs } from '../model/brands.ts'
import type { Runtime } from '../model/runtime.ts'
import { randomUUID } from '../node.ts'
import { processAloneLock } from './alone-lock.ts'

/** Node's limit, ms (24.8 days). It calls back at once for a longer delay, and warns, as for one that is over already. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

export const systemRuntime: Runtime = {
  now: () => Date.now() as EpochMs,
  monotonic: () => performance.now(),
  random: () => Math.random(),
  uuid: () => randomUUID(),
  alone: processAloneLock(),
  setTimer: (callback, delayMs, options) => {
    const timer = setTimeout(callback, Math.min(Math.max(delayMs, 1), LONGEST_TIMER_MS))
    if (options?.keepAlive === false) timer.unref()
    return () => clearTimeout(timer)
  },
}
