import {
  type ConnectionProvider,
  type Dialect,
  DummyDriver,
  type Kysely,
  PostgresIntrospector,
  PostgresQueryCompiler,
  Transaction,
} from 'kysely'

/** A `Transaction` of Kysely with the user's plugins. It has no `commit()` and no `rollback()`. */
export function toTransaction<DB>(db: Kysely<DB>, provider: ConnectionProvider): Transaction<DB> {
  const executor = db.getExecutor().withConnectionProvider(provider)
  const driver = new DummyDriver()
  const dialect: Dialect = {
    createAdapter: () => executor.adapter,
    createDriver: () => driver,
    createIntrospector: (kysely) => new PostgresIntrospector(kysely),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  }
  return new Transaction<DB>({ config: { dialect }, dialect, driver, executor })
}
