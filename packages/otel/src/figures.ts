import { answerWithin, LATE } from '@onceward/core/adapter'
import {
  type InboxFigures,
  type Runtime,
  systemRuntime,
  type WatchedGuard,
} from '@onceward/core/ports'
import { diag } from '@opentelemetry/api'

/** Longest wait for the database. A collection of metrics waits as long. */
const LONGEST_WAIT_MS = 2_000

/** What the tables hold, or undefined if the database does not say. Never rejects. */
export type FiguresReader = () => Promise<InboxFigures | undefined>

/** Asks at most once in `everyMs`, and never while an earlier question has no answer. */
export function figuresReader(
  guard: Pick<WatchedGuard, 'figures'>,
  everyMs: number,
  runtime: Runtime = systemRuntime,
): FiguresReader {
  let asking: Promise<InboxFigures | undefined> | undefined
  let answered: { readonly atMs: number; readonly figures: InboxFigures | undefined } | undefined
  const ask = async (): Promise<InboxFigures | undefined> => {
    try {
      const figures = await guard.figures()
      // Nothing is open yet, which may change at any moment.
      if (figures !== undefined) answered = { atMs: runtime.monotonic(), figures }
      return figures
    } catch (error) {
      // Metrics that are missing, and the guard's own outage, tell that the database is down.
      diag.debug('onceward: the tables were not read', error)
      return undefined
    } finally {
      asking = undefined
    }
  }
  return async () => {
    if (answered !== undefined && runtime.monotonic() - answered.atMs < everyMs)
      return answered.figures
    asking ??= ask()
    const figures = await answerWithin(runtime, asking, LONGEST_WAIT_MS, { keepAlive: false })
    return figures === LATE ? undefined : figures
  }
}
