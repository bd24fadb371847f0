import { randomUUID } from 'node:crypto'
import { toEpochMs } from '../model/brands.ts'
import type { Runtime } from '../model/runtime.ts'
import { processAloneLock } from './alone-lock.ts'

export const systemRuntime: Runtime = {
  now: () => toEpochMs(Date.now()),
  monotonic: () => performance.now(),
  random: () => Math.random(),
  uuid: () => randomUUID(),
  alone: processAloneLock(),
  setTimer: (callback, delayMs, options) => {
    const timer = setTimeout(callback, delayMs)
    if (options?.keepAlive === false) timer.unref()
    return () => clearTimeout(timer)
  },
}
