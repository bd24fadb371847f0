import type { CustomTypesConfig, PoolClient, QueryConfig, QueryResult } from 'pg'

/** Returns column texts unparsed, regardless of the user's type parsers. */
const AS_TEXT: CustomTypesConfig = {
  getTypeParser: (() => (value: string) => value) as unknown as CustomTypesConfig['getTypeParser'],
}

export type PgAnswer = QueryResult<Record<string, unknown>>

/** A statement with what pg must know of it. pg copies an object property by property, so a plain text is cheaper. */
export function queryOf(text: string, values?: readonly unknown[]): QueryConfig {
  return { text, types: AS_TEXT, ...(values === undefined ? {} : { values: [...values] }) }
}

/** Answers of pg: one, or a list if the text had several statements. */
export type Answers = PgAnswer | PgAnswer[]

/** As pg calls it: answers count only without an error. */
type Callback = (error: unknown, answers: Answers) => void

/**
 * Sends one text of one or more statements. By callbacks, because this runs for every event, and pg makes two promises
 * where it gets none.
 */
export function query(
  client: PoolClient,
  text: string | QueryConfig,
  callback: Callback,
  values?: unknown[],
): void {
  const returned: unknown =
    values === undefined
      ? client.query<Record<string, unknown>>(text as string, callback)
      : client.query<Record<string, unknown>>(text as string, values, callback)
  const answering = returned as PromiseLike<Answers | undefined> | undefined
  // Others put functions of their own in place of `query`, which may not pass the callback on. Their promises need not be
  // of Node's class: Bluebird has its own, and zone.js replaces the global one.
  if (typeof answering?.then === 'function') {
    answering.then(
      (answers) => answers !== undefined && callback(undefined, answers),
      (error: unknown) =>
        callback(error ?? new Error('A query was rejected without a reason.'), []),
    )
  }
}

/** As {@link query}. Resolves with one answer for each statement. */
export function sendTo(
  client: PoolClient,
  text: string | QueryConfig,
): Promise<readonly PgAnswer[]> {
  return new Promise((resolve, reject) => {
    query(client, text, (error, answers) => (error ? reject(error) : resolve(inList(answers))))
  })
}

export function inList(answers: Answers): readonly PgAnswer[] {
  return Array.isArray(answers) ? answers : [answers]
}
