import { isThenable } from '../concurrency/maybe-async.ts'
import { describeError } from '../model/errors.ts'
import type { GuardPort } from '../model/guard-port.ts'
import type { GuardReading, WatchedGuard } from '../model/guard-reading.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { OpenStores } from '../run/stores.ts'

/** What only the guard itself knows. */
interface Inner {
  readonly inHand: number
  readonly stores: OpenStores | undefined
}

const ended = (): void => undefined

/**
 * Shows a guard to its observer, if the observer wants to watch. An observer that fails is logged and cannot make the
 * guard fail.
 */
export function watch(
  { consumer, logger, observe }: ResolvedOptions,
  port: Pick<GuardPort, 'availability' | 'outages' | 'settings'>,
  inner: () => Inner,
): () => void {
  const failed = (error: unknown): void =>
    logger.error({ err: describeError(error) }, 'watching the guard failed: fix the observer')
  if (typeof observe?.watch !== 'function') return ended
  const watched: WatchedGuard = {
    consumer,
    read: () => readingOf(port, inner()),
    figures: async () => inner().stores?.engine?.session.figures?.(),
  }
  const call = (task: () => unknown): unknown => {
    try {
      const answer = task()
      // A promise is not awaited, but its rejection must not end the process.
      if (isThenable(answer)) Promise.resolve(answer).catch(failed)
      return answer
    } catch (error) {
      failed(error)
      return undefined
    }
  }
  const unwatch = call(() => observe.watch?.(watched))
  return typeof unwatch === 'function' ? () => void call(() => unwatch()) : ended
}

function readingOf(
  port: Pick<GuardPort, 'availability' | 'outages' | 'settings'>,
  { inHand, stores }: Inner,
): GuardReading {
  const availability = port.availability()
  const isPaused = availability.kind === 'down' && availability.pause !== undefined
  return {
    inHand,
    concurrency: stores?.slots.size ?? port.settings.concurrency,
    breaker: availability.kind === 'available' || isPaused ? 'closed' : 'open',
    ...(isPaused ? { paused: true } : {}),
    incompleteEvents: stores?.engine?.late.events ?? 0,
    outages: port.outages().map(({ dependency }) => dependency),
    leases: stores?.leases?.renewer.read(),
    pool: stores?.engine?.session.poolUse?.(),
  }
}
