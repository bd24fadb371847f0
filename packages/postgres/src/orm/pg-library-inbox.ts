import type { Inbox } from '@onceward/core'
import { createInbox } from '../inbox/inbox.ts'
import { type PgLibrary, pgLibraryDriver } from '../pg-driver.ts'
import { aroundHandlers, type ToAround } from './around-handlers.ts'
import { type OrmInboxOptions, ormOptions } from './options.ts'

/** A library over pg, which may do something of its own around handlers. */
export interface SurroundingLibrary<Tx> extends PgLibrary<Tx> {
  readonly toAround?: ToAround<Tx, Tx>
}

/**
 * Makes an inbox of an ORM that works on connections of pg. The ORM lends a connection, gets it back as a client that
 * refuses what a handler must not send, and makes its own transaction on it. Everything else is that of `pgInbox`.
 *
 * @param place - The function of the user's that makes it, for errors.
 */
export function pgLibraryInbox<Tx>(
  place: string,
  library: SurroundingLibrary<Tx>,
  options: OrmInboxOptions,
): Inbox<Tx> {
  const { openPool, settings } = ormOptions(place, options)
  return createInbox((registration) => {
    const { pool, close } = openPool(registration)
    const driver = pgLibraryDriver(library, pool, settings, registration.runtime)
    return { ...(library.toAround ? aroundHandlers(driver, library.toAround) : driver), close }
  }, options)
}
