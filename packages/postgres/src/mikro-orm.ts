import { ConfigurationError, type Inbox } from '@onceward/core'
import { hasMethod, refuseUnfitClient } from '@onceward/core/adapter'
import type { ConsumerRegistration } from '@onceward/core/ports'
import type { Knex } from 'knex'
import type { Kysely } from 'kysely'
import type { Pool } from 'pg'
import { toLibraryTransaction } from './clients/kysely-library.ts'
import { cancelBackend } from './clients/pg-connection.ts'
import type { Driver } from './driver/driver.ts'
import { withConnection } from './driver/inbox-connection.ts'
import { toStoreError } from './errors.ts'
import { createInbox } from './inbox/inbox.ts'
import { kyselyDriver } from './kysely-driver.ts'
import type { DriverSettings } from './options.ts'
import type { ToAround } from './orm/around-handlers.ts'
import { knexLibrary } from './orm/knex-library.ts'
import { aroundMikroOrm, type MikroOrm, mikroOrmRoot } from './orm/mikro-orm-around.ts'
import { type OrmInboxOptions, ormOptions } from './orm/options.ts'
import { warningOfRootWrites } from './orm/root-writes.ts'
import { pgDriver, pgLibraryDriver } from './pg-driver.ts'

/** Options of {@link mikroOrmInbox}. */
export type MikroOrmInboxOptions = OrmInboxOptions

/** The part of MikroORM's `EntityManager` that {@link mikroOrmInbox} uses. */
export interface MikroOrmManager {
  fork(): MikroOrmManager
  flush(): Promise<void>
  setTransactionContext(context: never): void
}

/**
 * The durable guard of a consumer on MikroORM: handlers get an `EntityManager` in the transaction of the event, a fork for
 * each. Within a handler `orm.em` is that manager too, so services that hold `orm.em` write in the transaction. What they have
 * persisted is flushed when the handler has returned.
 *
 * @param orm - With the driver for PostgreSQL. What a handler writes with a fork of either is outside of the transaction:
 * nest with `tx.transactional()`.
 * @param options - The connection for the guard's own statements, as `connectionString` or `pool`.
 * @throws {@link ConfigurationError}
 *
 * @example
 * ```ts
 * import { EntitySchema, MikroORM } from '@mikro-orm/postgresql'
 * import { createGuard } from '@onceward/core'
 * import { mikroOrmInbox } from '@onceward/postgres/mikro-orm'
 *
 * const Charge = new EntitySchema<{ orderId: string; cents: number }>({
 *   name: 'Charge',
 *   properties: { orderId: { type: 'text', primary: true }, cents: { type: 'integer' } },
 * })
 * const clientUrl = process.env.DATABASE_URL ?? ''
 * const orm = await MikroORM.init({ clientUrl, entities: [Charge] })
 *
 * const inbox = mikroOrmInbox(orm, { connectionString: clientUrl })
 * const billing = createGuard(
 *   { consumer: 'billing', inbox, schema: OrderPlaced },
 *   async ({ payload: { orderId, cents } }, { tx }) => {
 *     tx.create(Charge, { orderId, cents })
 *   },
 * )
 * ```
 */
export function mikroOrmInbox<Manager extends MikroOrmManager>(
  orm: { readonly em: Manager },
  options: MikroOrmInboxOptions,
): Inbox<Manager> {
  refuseUnfitClient('mikroOrmInbox', orm, {
    expected: 'an instance of MikroORM',
    methods: ['close'],
    field: 'em',
  })
  const { openPool, settings } = ormOptions('mikroOrmInbox', options)
  const em = orm.em as unknown as MikroOrm & Manager
  let toAround: ToAround<object, Manager> | undefined
  const inbox = createInbox<Manager>((registration) => {
    const { pool, close } = openPool(registration)
    const parts: Parts = { orm: orm as unknown as Orm, pool, settings, registration }
    return warningOfRootWrites(
      { ...innerDriver(parts), close },
      {
        ...{ toAround: toAround as ToAround<object, Manager>, registration },
        rootWatch: mikroOrmRoot(em),
      },
    )
  }, options)
  const open: Inbox<Manager>['open'] = async (registration) => {
    toAround ??= await aroundMikroOrm(em)
    return inbox.open(registration)
  }
  return withConnection({ open }, options)
}

/** What is used of MikroORM, which the types of its core do not say. */
interface Orm {
  readonly em: { getConnection(type: 'write'): Connection }
  readonly config: { get(option: 'pool'): { readonly max?: number } | undefined }
}

interface Connection {
  /** Of version 7, which is built on Kysely. */
  getClient?(): Kysely<unknown>
  ensureConnection(): Promise<void>
  /** Of version 6, which is built on Knex. */
  getKnex?(): Knex
}

interface Parts {
  readonly orm: Orm
  /** Of the guard. */
  readonly pool: Pool
  readonly settings: DriverSettings
  readonly registration: ConsumerRegistration
}

function innerDriver({ orm, pool, settings, registration }: Parts): Driver<object> {
  const { runtime } = registration
  const connection = orm.em.getConnection('write')
  const knex = connection.getKnex?.()
  if (knex !== undefined) return pgLibraryDriver(knexLibrary(knex), pool, settings, runtime)
  const db = connection.getClient?.()
  if (db === undefined || !hasMethod(db, 'getExecutor')) {
    throw new ConfigurationError(
      'Expected mikroOrmInbox to get a MikroORM 6 or 7 for PostgreSQL: use the driver of @mikro-orm/postgresql.',
    )
  }
  const { durable, query, shortTransaction } = pgDriver(pool, settings, runtime)
  const source = {
    ...{ db, runtime, toTransaction: toLibraryTransaction, isLibrary: true },
    cancel: (pid: number) => cancelBackend(pool, runtime, pid),
  }
  const poolSize = orm.config.get('pool')?.max
  const own = { durable, query, shortTransaction }
  const driver = kyselyDriver(source, { ...settings, poolSize }, own)
  return {
    ...driver,
    begin: async (request, context) => {
      // MikroORM connects when it is first used, over a connection of its own. A handler may hold the last one.
      await connection.ensureConnection().catch((error: unknown) => {
        throw toStoreError(error, 'connecting')
      })
      return driver.begin(request, context)
    },
  }
}
