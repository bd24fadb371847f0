import type { Pool, PoolClient } from 'pg'

/** A pool of an ORM's own that holds clients of pg. */
export interface ClientSource<Client extends object> {
  /** The most connections of the pool. Undefined if it has no limit. */
  readonly max: number | undefined
  /** Takes a client from the pool. */
  take(): Promise<Client>
  /** @param isBroken - The client must not be lent again. */
  give(client: Client, isBroken: boolean): void
  /** Connections now. */
  use(): { readonly used: number; readonly idle: number; readonly waiting: number }
}

/** The pool as the rest of this package uses a `Pool` of pg. */
export function lentPool<Client extends object>(source: ClientSource<Client>): Pool {
  const pool = {
    options: { max: source.max },
    get totalCount() {
      const { idle, used } = source.use()
      return idle + used
    },
    get idleCount() {
      return source.use().idle
    },
    get waitingCount() {
      return source.use().waiting
    },
    connect: async () => lendable(source, await source.take()),
  }
  return pool as unknown as Pool
}

/** A `Client` of pg has no `release`, which only its own pool gives it. */
function lendable<Client extends object>(
  source: ClientSource<Client>,
  client: Client,
): Client & Pick<PoolClient, 'release'> {
  const release = (error?: Error | boolean): void => source.give(client, Boolean(error))
  return Object.hasOwn(client, 'release')
    ? (client as Client & Pick<PoolClient, 'release'>)
    : Object.assign(client, { release })
}
