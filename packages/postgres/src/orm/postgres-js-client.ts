import type { Runtime } from '@onceward/core/ports'
import type { Sql, TransactionSql } from 'postgres'
import type { Driver, QueryAnswer } from '../driver/driver.ts'
import { gateOf } from '../driver/pool-slots.ts'
import { createShortTransactions, type StatementConnection } from '../driver/short-transaction.ts'
import { inline } from '../driver/sql-literal.ts'
import { diagnose, endsConnection } from '../errors.ts'
import { type OpenTransaction, openTransaction } from './callback-transaction.ts'
import type { OrmBegin, OrmTransaction } from './orm-connection.ts'
import { guardedSql, type Running } from './postgres-js-handle.ts'

/**
 * A transaction of postgres.js, which writes to a connection that has closed: that ends the process, or runs the statement
 * outside of the transaction once the connection is open again (porsager/postgres#1208, #1155). So nothing is sent when the
 * connection is over, also no ROLLBACK: the callback then never returns.
 */
async function openOn(sql: Sql, options: string, isEnding: () => boolean): Promise<JsTransaction> {
  const open = await openTransaction<TransactionSql>((callback) => sql.begin(options, callback))
  const isOver = (): boolean => open.lost !== undefined || isEnding()
  return {
    ...{ tx: open.tx, isOver },
    get lost() {
      return open.lost
    },
    commit: () => (isOver() ? open.abandoned() : open.commit()),
    rollback: () => (isOver() ? open.abandoned() : open.rollback()),
  }
}

interface JsTransaction extends Omit<OpenTransaction<TransactionSql>, 'abandoned'> {
  isOver(): boolean
}

/** A transaction of postgres.js with a guarded handle. */
export async function beginPostgresJs(
  sql: Sql,
  { isolation, watch }: OrmBegin,
): Promise<OrmTransaction<TransactionSql>> {
  const options = `isolation level ${isolation} read write`
  const open = await openOn(sql, options, () => watch.status === 'broken')
  const running: Running = new Set()
  const { commit, isOver, rollback } = open
  return {
    tx: guardedSql(open.tx, { watch, running, isOver }),
    get lost() {
      return open.lost
    },
    ...{ commit, rollback },
    query: (text) => ask(sql, open.tx, text),
    // As the user's own statements: behind some poolers nothing may be prepared.
    prepared: async ({ text, values }) => {
      const { prepare } = sql.options
      return toAnswer(sql, await open.tx.unsafe(text, [...values], { prepare }).values())
    },
    // Over a connection of its own, which needs no place in the pool.
    cancel: async () => {
      await Promise.all([...running].map((query) => query.cancel()))
    },
  }
}

/** The statements of the guard itself, over the user's own postgres.js. */
export function postgresJsStatements(
  sql: Sql,
  runtime: Runtime,
): Omit<Driver<unknown>, 'begin' | 'poolSize' | 'poolUse'> {
  return {
    ...createShortTransactions({
      ...{ runtime, sendsAtOnce: true },
      gate: gateOf(sql, sql.options.max),
      connect: () => Promise.resolve(statementConnection(sql)),
    }),
    sendsAtOnce: true,
    diagnose,
  }
}

/** Texts that are one transaction go to any connection; those that begin one get the same connection until it ends. */
function statementConnection(sql: Sql): StatementConnection {
  let open: JsTransaction | undefined
  let isEnding = false
  const run = (text: string): Promise<QueryAnswer> =>
    ask(sql, open?.tx ?? sql, text).catch((error: unknown) => {
      isEnding ||= endsConnection(error)
      throw error
    })
  return {
    send: async ([first = '', ...rest]) => {
      if (!first.startsWith(BEGIN)) return run([first, ...rest].join('; '))
      open = await openOn(sql, first.slice(BEGIN.length), () => isEnding)
      return run(rest.join('; '))
    },
    query: async (text, values) => {
      if (text !== 'commit' && text !== 'rollback') return run(inline(text, values))
      await open?.[text]()
      return NOTHING
    },
    // postgres.js gives notices to the user's `onnotice` alone.
    isUnreplicated: () => false,
    release: () => {
      // Where it has ended already, this changes nothing.
      open?.rollback().catch(() => undefined)
    },
  }
}

const BEGIN = 'begin '
const NOTHING: QueryAnswer = { rows: [], rowCount: 0 }

/** What postgres.js answers to a text of one statement. */
interface Result extends ReadonlyArray<readonly unknown[]> {
  readonly count: number | null
  readonly columns: readonly { readonly name: string }[] | undefined
}

/** Sends a text of one or more statements. The user may have renamed the columns of all queries. */
async function ask(sql: Sql, on: Sql | TransactionSql, text: string): Promise<QueryAnswer> {
  return toAnswer(sql, await on.unsafe(text).values())
}

function toAnswer(sql: Sql, answer: unknown): QueryAnswer {
  const results = (isResult(answer) ? [answer] : answer) as readonly Result[]
  const last = results.at(-1)
  if (last === undefined) return NOTHING
  const names = (last.columns ?? []).map(({ name }) => name)
  const rename = sql.options.transform?.column?.from ?? ((name: string) => name)
  const rows = last.map((values) => namedRow(names, values, rename))
  return { rows, rowCount: last.count ?? rows.length }
}

const isResult = (answer: unknown): answer is Result =>
  typeof answer === 'object' && answer !== null && 'count' in answer

function namedRow(
  names: readonly string[],
  values: readonly unknown[],
  rename: (name: string) => string,
): QueryAnswer['rows'][number] {
  return new Proxy<Record<string, unknown>>(
    {},
    {
      get: (_, name) =>
        typeof name === 'string' ? values[names.indexOf(rename(name))] : undefined,
    },
  )
}
