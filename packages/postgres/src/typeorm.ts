import { ConfigurationError, type Inbox } from '@onceward/core'
import { refuseUnfitClient } from '@onceward/core/adapter'
import type { OrmInboxOptions } from './orm/options.ts'
import { pgLibraryInbox } from './orm/pg-library-inbox.ts'
import { type DataSource, typeormLibrary } from './orm/typeorm-library.ts'

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
  const library = typeormLibrary(dataSource as unknown as DataSource<Manager>)
  return pgLibraryInbox('typeormInbox', library, options)
}
