import {
  type Breaker,
  createBreaker,
  type LeaseRegistration,
  type Runtime,
  StoreUnavailableError,
} from '@onceward/core'
import { answerWithin, LATE } from '@onceward/core/adapter'

/**
 * The answer of Redis.
 *
 * @throws {@link LateError} when there is none within `budgetMs`.
 */
export async function inBudget<Answer>(
  asked: Promise<Answer>,
  { runtime, budgetMs }: { readonly runtime: Runtime; readonly budgetMs: number },
): Promise<Answer> {
  const inTime = await answerWithin(runtime, asked, budgetMs)
  if (inTime !== LATE) return inTime
  // A busy event loop runs timers before it reads sockets. An answer that has arrived by now is not late.
  await new Promise((resolve) => setImmediate(resolve))
  const arrived = await Promise.race<Answer | typeof LATE>([asked, LATE])
  if (arrived !== LATE) return arrived
  throw new LateError(budgetMs)
}

/** What was asked may still be done. */
export class LateError extends StoreUnavailableError {
  constructor(budgetMs: number) {
    super(`Redis did not answer within ${budgetMs} ms.`)
  }
}

/** Stops asking a Redis that fails or is slow, and says so once. */
export interface Patience {
  readonly budgetMs: number
  /** @throws {@link StoreUnavailableError} while Redis is left alone. */
  admit(): void
  /** Counts the outcome; rethrows. */
  watch<Answer>(asked: Promise<Answer>): Promise<Answer>
  failed(error: unknown): void
  succeeded(): void
}

export function createPatience(
  { consumer, logger, runtime }: LeaseRegistration,
  budgetMs: number,
): Patience {
  const breaker: Breaker = createBreaker(runtime)
  let missed = 0
  const failed = (error: unknown): void => {
    const wasOpen = breaker.state() !== undefined
    breaker.failed(error)
    missed += 1
    if (wasOpen) return
    const reason = error instanceof Error ? error.message : String(error)
    logger.warn({ consumer, reason }, 'Redis is left alone for a while')
  }
  const succeeded = (): void => {
    if (breaker.state() === undefined) return
    breaker.succeeded()
    logger.info({ consumer, missed }, 'Redis answers again')
    missed = 0
  }
  return {
    budgetMs,
    failed,
    succeeded,
    admit: () => {
      const admission = breaker.admit()
      if (admission === 'go') return
      missed += 1
      throw new StoreUnavailableError(
        `Redis is not asked for another ${Math.ceil(admission)} ms.`,
        { cause: breaker.state()?.error },
      )
    },
    watch: async (asked) => {
      try {
        const answer = await inBudget(asked, { runtime, budgetMs })
        succeeded()
        return answer
      } catch (error) {
        failed(error)
        throw error
      }
    },
  }
}
