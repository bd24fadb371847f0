import { isConflict } from '@onceward/core/adapter'
import type { IdentifiedEvent, ParkAnswer } from '@onceward/core/ports'
import type { Connection } from '../driver/driver.ts'
import { answers, eventParameter, idArray, type StoringContext, texts } from '../driver/rows.ts'
import { sqlState } from '../errors.ts'
import { LOCK_NOT_AVAILABLE } from '../sqlstates.ts'
import type { KnownRow } from '../statements/attempts.ts'
import { isStorable, storeDelivery } from '../statements/delivery-columns.ts'
import { toKnown } from './attempts.ts'
import { isInParts, writeBody } from './bodies.ts'

/** Most tries for one event. Each further try means that another process changed its row. */
const MOST_TRIES = 4

/** Stores events that the poller of a guard is to run. One after the other, because each carries its delivery. */
export async function park(
  context: StoringContext,
  events: readonly IdentifiedEvent[],
  waitMs: number,
): Promise<readonly ParkAnswer[]> {
  const boundMs = Math.max(5, Math.floor(waitMs / Math.max(1, events.length)))
  const parked: ParkAnswer[] = []
  for (const event of events) {
    try {
      parked.push(await parkOne({ context, event, boundMs }))
    } catch (error) {
      if (sqlState(error) !== LOCK_NOT_AVAILABLE) throw error
      parked.push({ kind: 'held' })
    }
  }
  return parked
}

interface Parking {
  readonly context: StoringContext
  readonly event: IdentifiedEvent
  readonly boundMs: number
}

async function parkOne(parking: Parking): Promise<ParkAnswer> {
  const { context, event } = parking
  const { driver, maxStoredBytes, statements } = context
  const isStored = isStorable(event.delivery, maxStoredBytes)
  for (let tries = 0; tries < MOST_TRIES; tries += 1) {
    if (isStored && (await write(parking, statements.park))) return { kind: 'parked' }
    const [row] = answers<KnownRow>(await driver.query(statements.classify, [idArray([event])]))
    if (row === undefined) {
      if (!isStored) return { kind: 'too-large' }
      continue
    }
    const known = toKnown(row)
    const isUnparked = (known.kind === 'waiting' || known.kind === 'running') && !row.parked
    if (!isUnparked || isConflict(known.fingerprint, event.fingerprint)) {
      return { kind: 'known', known }
    }
    if (!isStored) return { kind: 'too-large' }
    if (await write(parking, statements.parkKnown, row.fingerprint)) return { kind: 'parked' }
  }
  return { kind: 'held' }
}

/** Whether the statement has stored the event. Durable: the caller answers by it. */
async function write(
  { boundMs, context, event }: Parking,
  statement: string,
  stored?: string,
): Promise<boolean> {
  const { consumerId, driver, maxStoredBytes, statements } = context
  const { delivery, id } = event
  const row = { ...eventParameter(event), stored, ...storeDelivery(delivery, maxStoredBytes) }
  const values = [JSON.stringify([row]), String(consumerId), String(boundMs)]
  if (!isInParts(delivery, maxStoredBytes)) {
    return texts(await driver.durable(statement, values)).length > 0
  }
  return driver.shortTransaction(async (connection: Connection) => {
    if (texts(await connection.query(statement, values)).length === 0) return false
    await writeBody(context, connection, { kind: 'event', id, delivery })
    await connection.query(statements.parkWhole, [id])
    return true
  })
}
