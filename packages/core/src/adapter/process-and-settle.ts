import type { GuardPort, RunHooks } from '../model/guard-port.ts'
import type { Settlement } from '../model/settlement.ts'
import type { Delivered } from './ordering.ts'

/** Hooks of one {@link processAndSettle}. */
export interface ProcessHooks<Each extends Delivered>
  extends Pick<RunHooks, 'stop' | 'abort' | 'hasDeadLetterPlace'> {
  /** The settlement is stored; carry it out with the broker. Must not reject. */
  readonly settle: (each: Each, settlement: Settlement) => Promise<unknown>
}

/** Runs a batch under the guard and settles each delivery once it is decided. Resolves when all are; never rejects. */
export async function processAndSettle<Each extends Delivered>(
  port: Pick<GuardPort, 'run' | 'logger'>,
  batch: readonly Each[],
  { settle, ...hooks }: ProcessHooks<Each>,
): Promise<void> {
  const settling = new Map<number, Promise<unknown>>()
  const onSettlement = (index: number, settlement: Settlement): void => {
    const each = batch[index]
    if (each === undefined || settling.has(index)) return
    settling.set(index, settle(each, settlement))
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
  await Promise.all(settling.values())
}
