import { ConfigurationError, type Inbox } from '@onceward/core'
import { hasMethod, refuseUnfitClient } from '@onceward/core/adapter'
import type { Pool, PoolClient } from 'pg'
import type { LibraryTransaction } from './clients/pg-connection.ts'
import type { OrmInboxOptions } from './orm/options.ts'
import { pgLibraryInbox } from './orm/pg-library-inbox.ts'

/** Options of {@link typeormInbox}. */
export type TypeormInboxOptions = OrmInboxOptions

/** The part of TypeORM's `DataSource` that {@link typeormInbox} uses. Any version from 0.3 has it. */
export interface TypeormDataSource<Manager> {
  readonly manager: Manager
  readonly isInitialized: boolean
  readonly options: { readonly type: string }
}

/**
 * The durable guard of a consumer on TypeORM: handlers get an `EntityManager` whose repositories write in the transaction
 * of the event.
 *
 * @param dataSource - Of type `postgres`, initialized before the guard starts. What a handler writes with the data source
 * itself, or with a repository of it, is outside of the transaction: get repositories by `tx.getRepository(Charge)`.
 * @param options - The connection for the guard's own statements, as `connectionString` or `pool`.
 * @throws {@link ConfigurationError}
 *
 * @example
 * ```ts
 * import { createGuard } from '@onceward/core'
 * import { typeormInbox } from '@onceward/postgres/typeorm'
 * import { DataSource, EntitySchema } from 'typeorm'
 *
 * const Charge = new EntitySchema<{ orderId: string; cents: number }>({
 *   name: 'Charge',
 *   columns: { orderId: { type: 'text', primary: true }, cents: { type: 'int' } },
 * })
 * const url = process.env.DATABASE_URL ?? ''
 * const dataSource = new DataSource({ type: 'postgres', url, entities: [Charge] })
 * await dataSource.initialize()
 *
 * const inbox = typeormInbox(dataSource, { connectionString: url })
 * const billing = createGuard(
 *   { consumer: 'billing', inbox, schema: OrderPlaced },
 *   async ({ payload: { orderId, cents } }, { tx }) => {
 *     await tx.getRepository(Charge).insert({ orderId, cents })
 *   },
 * )
 * ```
 */
export function typeormInbox<Manager extends object>(
  dataSource: TypeormDataSource<Manager>,
  options: TypeormInboxOptions,
): Inbox<Manager> {
  refuseUnfitClient('typeormInbox', dataSource, {
    expected: 'a DataSource of TypeORM',
    methods: ['createQueryRunner', 'getRepository'],
    field: 'manager',
  })
  const { type } = dataSource.options
  if (type !== 'postgres') {
    throw new ConfigurationError(
      `Expected typeormInbox to get a DataSource of type \`postgres\`, got one of type \`${type}\`.`,
    )
  }
  const source = dataSource as unknown as DataSource<Manager>
  const library = {
    // Read when the guard starts: the data source has no pool before it is initialized.
    get pool(): Pool {
      return poolOf(source)
    },
    toTransaction: (client: PoolClient): Promise<LibraryTransaction<Manager>> =>
      begin(source, client),
  }
  return pgLibraryInbox('typeormInbox', library, options)
}

/** What is used of a data source and of its driver, which the types of some versions do not say. */
interface DataSource<Manager> {
  readonly isInitialized: boolean
  readonly driver: { readonly master?: Pool }
  createQueryRunner(mode: 'master'): QueryRunner<Manager>
}

interface QueryRunner<Manager> {
  readonly manager: Manager
  readonly isTransactionActive: boolean
  /** With a connection of its own, the runner takes none from the pool, and gives none back. */
  databaseConnection?: PoolClient
  startTransaction(): Promise<void>
  commitTransaction(): Promise<void>
  rollbackTransaction(): Promise<void>
  release(): Promise<void>
}

function poolOf({ driver, isInitialized }: DataSource<unknown>): Pool {
  const { master } = driver
  if (isInitialized && master !== undefined && hasMethod(master, 'connect')) return master
  throw new ConfigurationError(
    'The DataSource of TypeORM has no pool of pg: await `dataSource.initialize()` before the guard starts.',
  )
}

async function begin<Manager>(
  dataSource: DataSource<Manager>,
  client: PoolClient,
): Promise<LibraryTransaction<Manager>> {
  const runner = dataSource.createQueryRunner('master')
  runner.databaseConnection = client
  await runner.startTransaction()
  return { tx: runner.manager, end: (isCommitted) => void end(runner, isCommitted) }
}

/** Tells the subscribers of the data source how the transaction has ended. */
async function end(runner: QueryRunner<unknown>, isCommitted: boolean): Promise<void> {
  try {
    await (isCommitted ? runner.commitTransaction() : runner.rollbackTransaction())
  } catch {
    // The outcome is stored. A subscriber that throws changes nothing.
  }
  await runner.release()
}
