import { DeadlineExceededError } from '@onceward/core'

/** https://www.postgresql.org/docs/current/runtime-config-client.html */
const LIMITS: ReadonlyMap<string | undefined, string> = new Map([
  [
    '25P03',
    '`idle_in_transaction_session_timeout`, because the handler sent no statement for so long',
  ],
  ['25P04', '`transaction_timeout`'],
])

/**
 * The server ends the connection of a transaction that takes longer than a limit of the role or the database. Each run of
 * the same handler would end so, and the server is fine.
 *
 * @param state - SQLSTATE of the error that ended the connection.
 */
export function timeLimitError(
  state: string | undefined,
  cause: unknown,
): DeadlineExceededError | undefined {
  const limit = LIMITS.get(state)
  if (limit === undefined) return undefined
  return new DeadlineExceededError(
    `PostgreSQL ended the transaction of the handler at ${limit}, and rolled it back. Make the handler faster, or raise that setting of the role or the database above \`deadlineMs\`.`,
    { cause },
  )
}
