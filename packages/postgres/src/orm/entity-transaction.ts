import type { DeadlineExceededError, OncewardError } from '@onceward/core'
import type {
  Begun,
  Commit,
  CommitAnswer,
  Failure,
  IdentifiedEvent,
  InboxTransaction,
  TransactionStatus,
  VerdictAnswer,
} from '@onceward/core/ports'
import type { Driver } from '../driver/driver.ts'

/** What an ORM makes of a transaction: its own handle, which collects changes and writes them later. */
export interface EntityHandle<Tx> {
  readonly tx: Tx
  /** Writes what the handle has collected. */
  flush(): Promise<void>
}

/** A driver whose handlers get what an ORM makes of the transactions of another driver. */
export function withEntities<Inner, Tx>(
  driver: Driver<Inner>,
  toHandle: (inner: Inner) => EntityHandle<Tx>,
): Driver<Tx> {
  return {
    ...driver,
    begin: async (request, context) => {
      const begun: Begun<Inner> = await driver.begin(request, context)
      if (begun.kind !== 'open') return begun
      const { claimed, transaction } = begun
      const handle = toHandle(transaction.tx)
      return { kind: 'open', claimed, transaction: new EntityTransaction(transaction, handle) }
    },
  }
}

/** A transaction that flushes the ORM before it commits, so that an error of the flush is the handler's. */
class EntityTransaction<Inner, Tx> implements InboxTransaction<Tx> {
  readonly tx: Tx
  readonly #inner: InboxTransaction<Inner>
  readonly #handle: EntityHandle<Tx>

  constructor(inner: InboxTransaction<Inner>, handle: EntityHandle<Tx>) {
    this.tx = handle.tx
    this.#inner = inner
    this.#handle = handle
  }

  async commit(commit: Commit): Promise<CommitAnswer> {
    try {
      await this.#handle.flush()
    } catch (error) {
      // A lost connection has an error of its own.
      if (this.#inner.status() !== 'broken') {
        await this.#inner.rollback()
        return { kind: 'rolled-back', error }
      }
    }
    return this.#inner.commit(commit)
  }

  status(): TransactionStatus {
    return this.#inner.status()
  }

  outOfTime(error: unknown): DeadlineExceededError | undefined {
    return this.#inner.outOfTime?.(error)
  }

  ended(thrown: unknown): OncewardError | undefined {
    return this.#inner.ended?.(thrown)
  }

  hasChangedSettings(): boolean {
    return this.#inner.hasChangedSettings?.() ?? false
  }

  revoke(error: OncewardError): void {
    this.#inner.revoke(error)
  }

  rollback(): Promise<void> {
    return this.#inner.rollback()
  }

  rollbackAndFail(failures: readonly Failure[]): Promise<readonly VerdictAnswer[]> {
    return this.#inner.rollbackAndFail(failures)
  }

  retract(events: readonly IdentifiedEvent[]): Promise<void> {
    return this.#inner.retract(events)
  }
}
