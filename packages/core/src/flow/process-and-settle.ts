import { isPromise, type MaybeAsync } from '../concurrency/maybe-async.ts'
import type { GuardPort, RunHooks } from '../model/guard-port.ts'
import type { Settlement } from '../model/settlement.ts'
import type { Delivered } from './ordering.ts'

/** Hooks of one {@link processAndSettle}. */
export interface ProcessHooks<Each extends Delivered>
  extends Pick<RunHooks, 'stop' | 'abort' | 'hasDeadLetterPlace'> {
  /** The settlement is stored; carry it out with the broker. Must neither throw nor reject. */
  readonly settle: (each: Each, settlement: Settlement) => MaybeAsync<unknown>
}

/** Runs a batch under the guard and settles each delivery once it is decided. Resolves when all are settled; never rejects. */
export async function processAndSettle<Each extends Delivered>(
  port: Pick<GuardPort, 'run' | 'logger'>,
  batch: readonly Each[],
  { settle, ...hooks }: ProcessHooks<Each>,
): Promise<void> {
  const isKnown: boolean[] = []
  const settling: Promise<unknown>[] = []
  const onSettlement = (index: number, settlement: Settlement): void => {
    const each = batch[index]
    if (each === undefined || isKnown[index]) return
    isKnown[index] = true
    const settled = settle(each, settlement)
    if (isPromise(settled)) settling.push(settled)
  }
  const deliveries = batch.map(({ delivery }) => delivery)
  try {
    const settlements = await port.run(deliveries, { onSettlement, ...hooks })
    for (const [index, settlement] of settlements.entries()) onSettlement(index, settlement)
  } catch (error) {
    // A guard never rejects. If one did, the commits would be unknown, and the redelivery would find out.
    port.logger.error({ err: error }, 'the guard rejected a batch; its messages will return')
    for (const index of batch.keys()) {
      onSettlement(index, { kind: 'abandon', reason: 'commit-unknown', error })
    }
  }
  if (settling.length > 0) await Promise.all(settling)
}
