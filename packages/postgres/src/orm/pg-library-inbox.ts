import type { Inbox } from '@onceward/core'
import type { ConsumerRegistration } from '@onceward/core/ports'
import type { Driver } from '../driver/driver.ts'
import { withConnection } from '../driver/inbox-connection.ts'
import { createInbox } from '../inbox/inbox.ts'
import { type PgLibrary, pgLibraryDriver } from '../pg-driver.ts'
import { type AroundHandlers, aroundHandlers, type ToAround } from './around-handlers.ts'
import { type OrmInboxOptions, ormOptions } from './options.ts'
import { type RootWatch, warningOfRootWrites } from './root-writes.ts'

/** A library over pg, which may do something of its own around handlers. */
export interface SurroundingLibrary<Tx> extends PgLibrary<Tx> {
  readonly toAround?: ToAround<Tx, Tx>
  readonly rootWatch?: RootWatch<Tx>
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
  const inbox = createInbox((registration) => {
    const { pool, close } = openPool(registration)
    const driver = pgLibraryDriver(library, pool, settings, registration.runtime)
    return surrounded({ ...driver, close }, library, registration)
  }, options)
  return withConnection(inbox, options)
}

function surrounded<Tx>(
  driver: Driver<Tx>,
  { rootWatch, toAround }: SurroundingLibrary<Tx>,
  registration: ConsumerRegistration,
): Driver<Tx> {
  if (rootWatch !== undefined) {
    return warningOfRootWrites(driver, { toAround: toAround ?? plain, rootWatch, registration })
  }
  return toAround === undefined ? driver : aroundHandlers(driver, toAround)
}

const plain = <Tx>(tx: Tx): AroundHandlers<Tx> => ({ tx, run: (handler) => handler() })
