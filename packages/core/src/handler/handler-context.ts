import type { GuardEvent } from '../model/delivery.ts'
import { boundLogger } from '../model/logger.ts'
import type { Outbox } from '../model/outbox.ts'
import type { HandlerContext } from '../options/options.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { noOutbox } from './outbox.ts'

/** What one run of the handler gets beside its event. */
export interface ContextParts<Tx> {
  readonly tx: Tx
  readonly aborting: AbortController
  readonly deadlineAt: Date
  /** Undefined: the handler cannot send. */
  readonly outbox?: Outbox | undefined
  /** Undefined for a batch of events. */
  readonly event?:
    | Pick<GuardEvent<unknown>, 'attempt' | 'idempotencyKey' | 'key' | 'type'>
    | undefined
  /** Undefined if it is not watched whether the handler uses `tx`. */
  readonly txWatch?: TxWatch | undefined
}

/** What the log lines of a handler name. */
interface Bound {
  readonly consumer: string
  eventId?: string
  attempt?: number
  type?: string
  key?: string
}

/**
 * The context of one run. Its logger makes a child of the user's for its first line, because most handlers log nothing.
 */
export function contextFor<Tx>(
  { consumer, handlerLogger, logKeys }: ResolvedOptions,
  { aborting, deadlineAt, event, outbox = noOutbox, tx, txWatch }: ContextParts<Tx>,
): HandlerContext<Tx> {
  const { signal } = aborting
  const bound: Bound = { consumer }
  // An event without a key has no id, neither in logs nor in dead letters.
  if (event !== undefined && event.key !== '') bound.eventId = event.idempotencyKey
  if (event !== undefined) bound.attempt = event.attempt
  if (event?.type !== undefined) bound.type = event.type
  if (logKeys && event !== undefined && event.key !== '') bound.key = event.key
  const logger = boundLogger(handlerLogger, bound)
  const onTx = txWatch?.onTx
  if (onTx === undefined) return { deadlineAt, tx, signal, logger, outbox }
  return {
    ...{ deadlineAt, signal, logger, outbox },
    get tx() {
      onTx()
      return tx
    },
  }
}

/** Runs in which no handler ever read `tx`, after which the guard warns. */
const UNUSED_RUNS = 10

/** Notices a handler that writes outside of the transaction of its inbox. */
export interface TxWatch {
  /** Called when a handler reads `tx`. Undefined once nothing is left to notice. */
  readonly onTx: (() => void) | undefined
  /** Called while something is left to notice: events were committed in the transaction of this handle. */
  committed(events: number, tx: unknown): void
}

export function watchTx({ consumer, reportOnce }: ResolvedOptions): TxWatch {
  let unused = 0
  const watched: { onTx: TxWatch['onTx']; readonly committed: TxWatch['committed'] } = {
    onTx: () => {
      watched.onTx = undefined
    },
    committed: (events, tx) => {
      // In unit tests, an inbox in memory has no handle to write through.
      if (tx === undefined) return
      unused += events
      if (unused < UNUSED_RUNS) return
      watched.onTx = undefined
      reportOnce(
        'warn',
        { consumer, events: UNUSED_RUNS },
        'the handler never used tx, so its effects are not exactly once: write through context.tx, or guard effects outside the database with leases alone',
      )
    },
  }
  return watched
}
