import { ConfigurationError } from '@onceward/core'
import { hasMethod } from '@onceward/core/adapter'
import type { HandlerTurn } from '@onceward/core/ports'
import type { Pool, PoolClient } from 'pg'
import type { LibraryTransaction } from '../clients/pg-connection.ts'
import type { AroundHandlers } from './around-handlers.ts'
import type { SurroundingLibrary } from './pg-library-inbox.ts'
import { isWrite } from './root-writes.ts'

/** What is used of a data source and of its driver, which the types of some versions do not say. */
export interface DataSource<Manager> {
  readonly isInitialized: boolean
  readonly driver: { readonly master?: Pool }
  readonly subscribers: Subscriber[]
  createQueryRunner(mode: 'master'): QueryRunner<Manager>
}

interface Subscriber {
  beforeQuery?(event: { readonly query: string; readonly queryRunner: object }): void
}

interface QueryRunner<Manager> {
  readonly manager: Manager
  /** Of the user, for subscribers. */
  data: object
  readonly broadcaster: { broadcast(event: TransactionEvent): Promise<void> }
  /** With a connection of its own, the runner takes none from the pool, and gives none back. */
  databaseConnection?: PoolClient
  startTransaction(): Promise<void>
  release(): Promise<void>
}

type TransactionEvent =
  | 'BeforeTransactionCommit'
  | 'AfterTransactionCommit'
  | 'BeforeTransactionRollback'
  | 'AfterTransactionRollback'

/** TypeORM as a library over pg, whose subscribers are told of the transaction. */
export function typeormLibrary<Manager extends object>(
  dataSource: DataSource<Manager>,
): SurroundingLibrary<Manager> {
  const runners = new WeakMap<Manager, Started<Manager>>()
  return {
    // Read when the guard starts: the data source has no pool before it is initialized.
    get pool(): Pool {
      return poolOf(dataSource)
    },
    toTransaction: async (client): Promise<LibraryTransaction<Manager>> => {
      const started = await start(dataSource, client)
      const { manager } = started.runner
      runners.set(manager, started)
      // The runner has no connection to give back. Released, it would refuse a late statement before the client sees it.
      return { tx: manager, end: () => undefined }
    },
    rootWatch: {
      listen: (seen) => {
        const subscriber: Subscriber = {
          beforeQuery: ({ query, queryRunner }) => {
            if (isWrite(query)) seen(query, queryRunner)
          },
        }
        const { subscribers } = dataSource
        subscribers.push(subscriber)
        return () => {
          const at = subscribers.indexOf(subscriber)
          if (at >= 0) subscribers.splice(at, 1)
        }
      },
      markOf: (manager) => runners.get(manager)?.runner,
    },
    toAround: (manager) => new Around(dataSource, runners.get(manager) as Started<Manager>),
  }
}

function poolOf({ driver, isInitialized }: DataSource<unknown>): Pool {
  const { master } = driver
  if (isInitialized && master !== undefined && hasMethod(master, 'connect')) return master
  throw new ConfigurationError(
    'The DataSource of TypeORM has no pool of pg: await `dataSource.initialize()` before the guard starts.',
  )
}

interface Started<Manager> {
  readonly runner: QueryRunner<Manager>
  /** A subscriber that is told of the begin has thrown. The connection says whether it was lost instead. */
  readonly failure: { readonly error: unknown } | undefined
}

async function start<Manager>(
  dataSource: DataSource<Manager>,
  client: PoolClient,
): Promise<Started<Manager>> {
  const runner = dataSource.createQueryRunner('master')
  runner.databaseConnection = client
  try {
    await runner.startTransaction()
    return { runner, failure: undefined }
  } catch (error) {
    return { runner, failure: { error } }
  }
}

class Around<Manager> implements AroundHandlers<Manager> {
  readonly tx: Manager
  readonly #dataSource: DataSource<Manager>
  readonly #started: Started<Manager>

  constructor(dataSource: DataSource<Manager>, started: Started<Manager>) {
    this.tx = started.runner.manager
    this.#dataSource = dataSource
    this.#started = started
  }

  async run(handler: () => unknown, { isLast }: HandlerTurn): Promise<unknown> {
    const { failure, runner } = this.#started
    if (failure !== undefined) throw failure.error
    const value = await handler()
    if (isLast) await runner.broadcaster.broadcast('BeforeTransactionCommit')
    return value
  }

  async ended(isCommitted: boolean): Promise<void> {
    const { runner } = this.#started
    if (!isCommitted) await runner.broadcaster.broadcast('BeforeTransactionRollback')
    // The connection of the transaction is given back. A subscriber that queries gets another one of the pool.
    const after = this.#dataSource.createQueryRunner('master')
    after.data = runner.data
    const event = isCommitted ? 'AfterTransactionCommit' : 'AfterTransactionRollback'
    try {
      await after.broadcaster.broadcast(event)
    } finally {
      await after.release()
    }
  }
}
