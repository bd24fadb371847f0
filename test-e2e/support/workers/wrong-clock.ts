import { type Runtime, systemRuntime } from '@onceward/core/ports'
import type { WorkerConfig } from './protocol.ts'

/** The runtime of a worker, with a wrong wall clock and a fixed `random()` if the test wants that. */
export function runtimeOf(config: Pick<WorkerConfig, 'clockOffsetMs' | 'random'>): Runtime {
  const { clockOffsetMs = 0, random } = config
  return {
    ...systemRuntime,
    now: () => (systemRuntime.now() + clockOffsetMs) as ReturnType<Runtime['now']>,
    ...(random === undefined ? {} : { random: () => random }),
  }
}
