import { StoreUnavailableError } from '@onceward/core'
import { answerWithin, describeError, LATE } from '@onceward/core/adapter'
import { type Breaker, createBreaker, type Runtime } from '@onceward/core/ports'

/**
 * The answer of Redis.
 *
 * @throws {@link LateError} if there is no answer within `budgetMs`.
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

/** Redis gave no answer in time. The script may still run. */
export class LateError extends StoreUnavailableError {
  constructor(budgetMs: number) {
    super(`Redis did not answer within ${budgetMs} ms.`)
  }
}

/** One guard's calls to Redis: each has a time budget, and after a failure Redis is not called for a while. */
export interface TimeBudget {
  /** @throws {@link StoreUnavailableError} while Redis is not to be called. */
  admit(): void
  /** The answer, within the budget. Counts the outcome, and rejects as the call does. */
  watch<Answer>(asked: Promise<Answer>): Promise<Answer>
  failed(error: unknown): void
  succeeded(): void
}

export function createTimeBudget(runtime: Runtime, budgetMs: number): TimeBudget {
  const breaker: Breaker = createBreaker(runtime)
  const failed = (error: unknown): void => breaker.failed(error)
  const succeeded = (): void => breaker.succeeded()
  return {
    failed,
    succeeded,
    admit: () => {
      const admission = breaker.admit()
      if (admission === 'go') return
      const cause = breaker.state()?.error
      throw new StoreUnavailableError(
        `Redis failed (${describeError(cause).message}) and is asked again in ${Math.ceil(admission)} ms. Beside an inbox events go on, with PostgreSQL alone; without one they wait. Check that Redis runs and that its address is right.`,
        { cause },
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
