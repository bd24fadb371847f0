import { createHook } from 'node:async_hooks'
import { Session } from 'node:inspector/promises'

/** Promises and timers that `work` makes for each of its events. */
export async function promisesAndTimers(
  work: () => Promise<unknown>,
  events: number,
): Promise<{ readonly promises: number; readonly timers: number }> {
  let promises = 0
  let timers = 0
  const hook = createHook({
    init: (_, type) => {
      if (type === 'PROMISE') promises += 1
      if (type === 'Timeout') timers += 1
    },
  })
  hook.enable()
  await work()
  hook.disable()
  return { promises: promises / events, timers: timers / events }
}

/**
 * Calls of the functions in the scripts for each event of `work`. An async function counts once more for each of its
 * awaits.
 */
export async function callsOf(
  scripts: RegExp,
  work: () => Promise<unknown>,
  events: number,
): Promise<number> {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  await session.post('Profiler.takePreciseCoverage')
  await work()
  const { result } = await session.post('Profiler.takePreciseCoverage')
  session.disconnect()
  const counts = result
    .filter(({ url }) => scripts.test(url))
    .flatMap(({ functions }) => functions.map(({ ranges }) => ranges[0]?.count ?? 0))
  return counts.reduce((sum, count) => sum + count, 0) / events
}
