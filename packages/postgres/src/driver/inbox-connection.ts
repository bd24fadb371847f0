import type { Pool, PoolConfig } from 'pg'

/** Where the tables of an inbox are, as its user has said. */
export interface InboxConnection {
  readonly connectionString?: string | undefined
  readonly pool?: Pool | PoolConfig | undefined
  readonly schema?: string | undefined
}

const CONNECTIONS = new WeakMap<object, InboxConnection>()

/** Keeps it for a relay of the same tables. Nothing is kept of inboxes that have no pool of pg. */
export function withConnection<Made extends object>(inbox: Made, given: InboxConnection): Made {
  const { connectionString, pool, schema } = given
  if (connectionString !== undefined || pool !== undefined) {
    CONNECTIONS.set(inbox, { connectionString, pool, schema })
  }
  return inbox
}

export const connectionOf = (inbox: object): InboxConnection | undefined => CONNECTIONS.get(inbox)
