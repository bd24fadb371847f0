import type { ConnectionProvider, Kysely, Transaction } from 'kysely'
import { refusedControl } from '../transaction/refusing-handle.ts'
import { rawQuery } from './kysely-raw.ts'

/*
 * A library that contains a Kysely, as MikroORM does, gives its users no classes of it. The class of the instance is enough:
 * Kysely makes a transaction of the same parts.
 */

/** Makes a Kysely of parts, in place of a configuration. */
type MakeKysely = new <DB>(parts: {
  readonly config: object
  readonly dialect: object
  readonly driver: object
  readonly executor: ReturnType<Kysely<DB>['getExecutor']>
}) => Kysely<DB>

/** A command of Kysely, as its transactions have them. */
interface Command<Answer> {
  execute(): Promise<Answer>
}

/** The handle of a transaction with the savepoints that the library asks for. It cannot end the transaction. */
export function toLibraryTransaction<DB>(
  db: Kysely<DB>,
  provider: ConnectionProvider,
): Transaction<DB> {
  const Class = db.constructor as MakeKysely
  const executor = db.getExecutor().withConnectionProvider(provider)
  const make = (): Kysely<DB> =>
    Object.assign(new Class<DB>({ config: {}, dialect: {}, driver: {}, executor }), {
      savepoint: (name: string) => command(`savepoint ${quoted(name)}`),
      releaseSavepoint: (name: string) => command(`release savepoint ${quoted(name)}`),
      rollbackToSavepoint: (name: string) => command(`rollback to savepoint ${quoted(name)}`),
      commit: () => refused('commit'),
      rollback: () => refused('rollback'),
      transaction: () => refused('begin'),
      startTransaction: () => refused('begin'),
    })
  const command = (text: string): Command<Kysely<DB>> => ({
    execute: async () => {
      await handle.executeQuery(rawQuery(text))
      // Of its own, because the library stores the name of the savepoint in it.
      return make()
    },
  })
  const handle = make()
  return handle as Transaction<DB>
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

const refused = (words: string): Command<never> => ({
  execute: () => Promise.reject(refusedControl(words)),
})
