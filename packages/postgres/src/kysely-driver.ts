import type { BeginRequest } from '@onceward/core/ports'
import type { Transaction } from 'kysely'
import type { Client } from './clients/kysely-checkout.ts'
import { connectForStatements, KyselyHeldConnection } from './clients/kysely-connection.ts'
import type { Driver } from './driver/driver.ts'
import { gateOf } from './driver/pool-slots.ts'
import { createShortTransactions, type ShortTransactions } from './driver/short-transaction.ts'
import { diagnose } from './errors.ts'
import type { DriverSettings } from './options.ts'
import { slotRequest } from './transaction/claim.ts'
import { beginInSteps } from './transaction/stepwise-begin.ts'

/**
 * The driver for Kysely.
 *
 * @param own - Runs everything but the transactions of handlers. Left out: Kysely does.
 */
export function kyselyDriver<DB>(
  source: Omit<Client<DB>, 'takesSeveral'>,
  settings: DriverSettings & { readonly poolSize?: number | undefined },
  own?: ShortTransactions,
): Driver<Transaction<DB>> {
  const { db, runtime } = source
  const { adapter } = db.getExecutor()
  const isSingle = adapter.supportsMultipleConnections === false
  // Kyselys derived from one another, as by withPlugin(), share the adapter and the pool.
  const gate = gateOf(adapter, isSingle ? 1 : settings.poolSize)
  const client: Client<DB> = { ...source, takesSeveral: isSingle ? false : undefined }
  const hold = async (request: BeginRequest): Promise<KyselyHeldConnection<DB>> => {
    const releaseSlot = await gate.business.acquire(slotRequest(request, runtime))
    try {
      return await KyselyHeldConnection.of(client, releaseSlot)
    } catch (error) {
      releaseSlot()
      throw error
    }
  }
  const driver: Driver<Transaction<DB>> = {
    ...(own ??
      createShortTransactions({
        gate,
        runtime,
        connect: () => connectForStatements(client),
        sendsAtOnce: false,
      })),
    sendsAtOnce: false,
    poolSize: isSingle ? undefined : settings.poolSize,
    diagnose,
    begin: (request, context) =>
      beginInSteps({ hold, settings, driver, begins: true }, request, context),
  }
  return driver
}
