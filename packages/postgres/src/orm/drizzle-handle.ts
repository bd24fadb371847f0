import type { LibraryTransaction } from '../clients/pg-connection.ts'
import { type OpenTransaction, openTransaction } from './callback-transaction.ts'

/** What is used of a session of Drizzle: it sends every statement to its client. */
export interface DrizzleSession {
  readonly client: unknown
  transaction(callback: (tx: unknown) => Promise<void>): Promise<void>
}

/**
 * The user's own transaction of Drizzle (its schema, logger and cache included) on another client.
 *
 * @param client - What the session then begins its transaction on.
 */
export function drizzleTransaction(
  session: DrizzleSession,
  client: unknown,
): Promise<OpenTransaction<unknown>> {
  const derived: DrizzleSession = Object.create(session, { client: { value: client } })
  return openTransaction((callback) => derived.transaction(callback))
}

/** As {@link drizzleTransaction}, whose BEGIN and end are answered without the server. */
export async function drizzleOnPg<Tx>(
  session: DrizzleSession,
  client: unknown,
): Promise<LibraryTransaction<Tx>> {
  const { tx, commit, rollback } = await drizzleTransaction(session, client)
  return {
    tx: tx as Tx,
    end: (isCommitted) => {
      ;(isCommitted ? commit() : rollback()).catch(() => undefined)
    },
  }
}
