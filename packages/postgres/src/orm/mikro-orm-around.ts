import { ConfigurationError } from '@onceward/core'
import { refusedControl } from '../transaction/refusing-handle.ts'
import type { AroundHandlers, ToAround } from './around-handlers.ts'
import type { RootWatch } from './root-writes.ts'

/** What is used of an `EntityManager` of MikroORM, which the types of its core do not say. */
export interface MikroOrm {
  fork(options: { readonly disableContextResolution: true }): MikroOrm
  flush(): Promise<void>
  setTransactionContext(context: object): void
  /** The manager that this one stands for now. */
  getContext(validate: false): object
  getUnitOfWork(): unknown
  getEventManager(): {
    dispatchEvent(event: TransactionEvent, args: object): unknown
    registerSubscriber(subscriber: Subscriber): void
  }
}

interface Subscriber {
  beforeTransactionStart(event: { readonly em: object; readonly transaction?: object }): void
}

type TransactionEvent =
  | 'beforeTransactionStart'
  | 'afterTransactionStart'
  | 'beforeTransactionCommit'
  | 'afterTransactionCommit'
  | 'afterTransactionRollback'

/** Where MikroORM finds the manager of a transaction, whichever manager a service holds. */
interface Contexts {
  create<T>(em: object, work: () => T): T
}

/**
 * Runs handlers in MikroORM's own context of a transaction, flushes behind each, and tells MikroORM's subscribers how the
 * transaction begins and ends.
 *
 * @throws {@link ConfigurationError} if the context is not that of this MikroORM.
 */
export async function aroundMikroOrm<Manager extends object>(
  em: MikroOrm,
): Promise<ToAround<object, Manager>> {
  const { TransactionContext } = (await import('@mikro-orm/postgresql').catch(() => ({}))) as {
    readonly TransactionContext?: Contexts
  }
  if (TransactionContext === undefined || !isOf(em, TransactionContext)) {
    throw new ConfigurationError(
      'The @mikro-orm/postgresql that onceward finds is another copy than that of the MikroORM of mikroOrmInbox, so services that hold `orm.em` would write outside of the transaction. Install one version of it, where @onceward/postgres is installed.',
    )
  }
  return (context) => new Around(em, context, TransactionContext)
}

/** A flush or a transaction of another manager than the handler's begins a transaction, unless it is a savepoint. */
export function mikroOrmRoot<Manager extends object>(em: MikroOrm): RootWatch<Manager> {
  return {
    listen: (seen) => {
      em.getEventManager().registerSubscriber({
        beforeTransactionStart: (event) => {
          if (event.transaction === undefined) seen(undefined, event.em)
        },
      })
      // MikroORM keeps its subscribers.
      return () => undefined
    },
    markOf: (tx) => tx,
  }
}

/** Whether the manager finds its transaction in the context. */
function isOf(em: MikroOrm, contexts: Contexts): boolean {
  const probe = em.fork(OWN)
  return contexts.create(probe, () => em.getContext(false)) === probe
}

/** A fork of the manager itself, and not of that of a context in which an event is processed. */
const OWN = { disableContextResolution: true } as const

class Around<Manager extends object> implements AroundHandlers<Manager> {
  readonly tx: MikroOrm & Manager
  readonly isAmbient = true
  readonly #context: object
  readonly #contexts: Contexts
  #hasBegun = false

  constructor(em: MikroOrm, context: object, contexts: Contexts) {
    const tx = em.fork(OWN)
    tx.setTransactionContext(context)
    this.tx = Object.assign(tx as MikroOrm & Manager, {
      begin: () => Promise.reject(refusedControl('begin')),
      commit: () => Promise.reject(refusedControl('commit')),
      rollback: () => Promise.reject(refusedControl('rollback')),
    })
    this.#context = context
    this.#contexts = contexts
  }

  run(handler: () => unknown, { isLast }: { readonly isLast: boolean }): unknown {
    return this.#contexts.create(this.tx, async () => {
      if (!this.#hasBegun) {
        this.#hasBegun = true
        await this.#tell('beforeTransactionStart')
        await this.#tell('afterTransactionStart')
      }
      const value = await handler()
      await this.tx.flush()
      if (isLast) await this.#tell('beforeTransactionCommit')
      return value
    })
  }

  async ended(isCommitted: boolean): Promise<void> {
    await this.#tell(isCommitted ? 'afterTransactionCommit' : 'afterTransactionRollback')
  }

  async #tell(event: TransactionEvent): Promise<void> {
    const { tx } = this
    const args = { em: tx, uow: tx.getUnitOfWork(), transaction: this.#context }
    await tx.getEventManager().dispatchEvent(event, args)
  }
}
