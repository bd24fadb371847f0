import { type GuardPort, pauseMs } from '@onceward/core/adapter'
import { describeError } from '@onceward/core/edge'

/** The first try comes within this time: a process that makes its tables when it starts is faster. Then ms between tries. */
const TRIES = { baseMs: 1_000, maxMs: 30_000 }

/**
 * Opens the stores of a guard without waiting for a request, and tries until it succeeds: deliveries that another
 * process has accepted may be waiting for a run. The returned function ends the tries.
 */
export function openEarly(port: Pick<GuardPort, 'logger' | 'runtime' | 'open'>): () => void {
  const { logger, runtime } = port
  let isOver = false
  let failures = 0
  let cancel = (): void => undefined
  const after = (delayMs: number): void => {
    cancel = runtime.setTimer(attempt, delayMs, { keepAlive: false })
  }
  const attempt = (): void => {
    port.open().catch((error: unknown) => {
      if (isOver) return
      failures += 1
      logger.warn(
        { err: describeError(error) },
        'the guard cannot run accepted deliveries yet and tries again: check the database of the inbox',
      )
      after(pauseMs(TRIES, failures, () => runtime.random()))
    })
  }
  after(runtime.random() * TRIES.baseMs)
  return (): void => {
    isOver = true
    cancel()
  }
}
