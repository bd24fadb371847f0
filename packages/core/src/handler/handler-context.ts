import type { GuardEvent } from '../model/delivery.ts'
import type { InboxTransaction } from '../model/inbox.ts'
import { boundLogger } from '../model/logger.ts'
import type { Outbox } from '../model/outbox.ts'
import type { HandlerContext } from '../options/options.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Deferring } from './deferral.ts'
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
  /** Made when it is needed. */
  readonly deferring: () => Deferring
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
  { aborting, deadlineAt, deferring, event, outbox = noOutbox, tx, txWatch }: ContextParts<Tx>,
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
  // Handlers take them out of the context.
  const defer = (ms: number): never => deferring().defer(ms)
  const pauseFor = (ms: number): never => deferring().pauseFor(ms)
  if (onTx === undefined) return { deadlineAt, tx, signal, logger, outbox, defer, pauseFor }
  return {
    ...{ deadlineAt, signal, logger, outbox, defer, pauseFor },
    get tx() {
      onTx()
      return tx
    },
  }
}

/** Events in a row without an effect in their transaction, after which the guard warns. */
const UNUSED_RUNS = 10

/** A transaction that is committed. */
interface CommittedTransaction {
  readonly transaction: Pick<InboxTransaction<unknown>, 'tx' | 'isAmbient' | 'hasSent'>
  /** Its handlers have sent messages. */
  readonly hasMessages: boolean
}

/** Notices a handler that writes outside of the transaction of its inbox, or after it. */
export interface TxWatch {
  /** Called when a handler reads `tx`. Undefined once that is known. */
  readonly onTx: (() => void) | undefined
  readonly isWatching: boolean
  /** Called while something is left to notice: events were committed in one transaction. */
  committed(events: number, committed: CommittedTransaction): void
}

const NEVER_USED =
  'the handler never used tx, so its effects are not exactly once: write through context.tx, or guard effects outside the database with leases alone'
const NO_STATEMENT =
  'events were committed without any statement of the handler, which takes tx: await every call in the handler. If these events need no effect, nothing is wrong'

export function watchTx({ consumer, reportOnce }: ResolvedOptions): TxWatch {
  let inRow = 0
  const warn = (text: string): void => {
    watched.onTx = undefined
    watched.isWatching = false
    reportOnce('warn', { consumer, events: UNUSED_RUNS }, text)
  }
  const watched: { -readonly [Name in keyof TxWatch]: TxWatch[Name] } = {
    isWatching: true,
    onTx: () => {
      watched.onTx = undefined
      inRow = 0
    },
    committed: (events, { hasMessages, transaction }) => {
      const { isAmbient, tx } = transaction
      if (watched.onTx !== undefined) {
        // In unit tests, an inbox in memory has no handle to write through. Repositories find an ambient transaction.
        if (tx === undefined || isAmbient === true) return
        inRow += events
        if (inRow >= UNUSED_RUNS) warn(NEVER_USED)
        return
      }
      inRow = hasMessages || transaction.hasSent?.() !== false ? 0 : inRow + events
      if (inRow >= UNUSED_RUNS) warn(NO_STATEMENT)
    },
  }
  return watched
}
