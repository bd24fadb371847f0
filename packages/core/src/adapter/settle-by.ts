import { isPromise, type MaybeAsync } from '../concurrency/maybe-async.ts'
import type { Settlement } from '../model/settlement.ts'

/** What a broker does with each kind of settlement. */
export type Verbs<Context, Each, Answer> = {
  readonly [Kind in Settlement['kind']]: (
    context: Context,
    each: Each,
    settlement: Extract<Settlement, { kind: Kind }>,
  ) => MaybeAsync<Answer>
}

export type Settle<Context, Each, Answer> = (
  context: Context,
  each: Each,
  settlement: Settlement,
) => MaybeAsync<Answer>

export interface FailedSettlement {
  readonly settlement: Settlement
  readonly error: unknown
}

/**
 * Makes the function that carries out settlements. Its answer never rejects: the settlement is stored, so a failed call
 * costs a redelivery. What needs no call is answered synchronously, so that the next settlement sees it.
 *
 * @param failed - The answer for a call that failed.
 */
export function settleBy<Context, Each, Answer>(
  verbs: Verbs<Context, Each, Answer>,
  failed: (context: Context, each: Each, failure: FailedSettlement) => MaybeAsync<Answer>,
): Settle<Context, Each, Answer> {
  return (context, each, settlement) => {
    const verb = verbs[settlement.kind] as Settle<Context, Each, Answer>
    const answer = verb(context, each, settlement)
    if (!isPromise(answer)) return answer
    return answer.catch((error: unknown) => failed(context, each, { settlement, error }))
  }
}
