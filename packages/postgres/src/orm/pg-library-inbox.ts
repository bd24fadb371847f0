import type { Inbox } from '@onceward/core'
import { createInbox } from '../inbox/inbox.ts'
import { type PgLibrary, pgLibraryDriver } from '../pg-driver.ts'
import { type OrmInboxOptions, ormOptions } from './options.ts'

/**
 * Makes an inbox of an ORM that works on connections of pg. The ORM lends a connection, gets it back as a client that
 * refuses what a handler must not send, and makes its own transaction on it. Everything else is that of `pgInbox`.
 *
 * @param place - The function of the user's that makes it, for errors.
 */
export function pgLibraryInbox<Tx>(
  place: string,
  library: PgLibrary<Tx>,
  options: OrmInboxOptions,
): Inbox<Tx> {
  const { openPool, settings } = ormOptions(place, options)
  return createInbox((registration) => {
    const { pool, close } = openPool(registration)
    return { ...pgLibraryDriver(library, pool, settings, registration.runtime), close }
  }, options)
}
