import type { Delivery } from '@onceward/core'
import { messageHash } from '@onceward/core/adapter'
import type { DeadLetterRef, Refusal } from '@onceward/core/ports'
import type { ConsumerContext, StoringContext } from '../driver/rows.ts'
import { storeDelivery } from '../statements/delivery-columns.ts'
import { escapeLooseKey, toErrorText } from '../statements/text-columns.ts'
import { isInParts, writeBody } from './bodies.ts'

/** Stores messages that were refused before they became an event. A redelivery finds the row of the first delivery. */
export async function refuse(
  context: StoringContext,
  refusals: readonly Refusal[],
): Promise<readonly DeadLetterRef[]> {
  const { driver, statements, consumerId, maxStoredBytes } = context
  const ids = refusals.map(({ delivery, original = delivery }) => refusedId(consumerId, original))
  const done = new Set<string>()
  for (const [index, { delivery, reason, error, key }] of refusals.entries()) {
    const id = ids[index]
    if (id === undefined || done.has(id)) continue
    done.add(id)
    const loose = key === undefined ? undefined : escapeLooseKey(key)
    const stored = storeDelivery(delivery, maxStoredBytes)
    const row = { id, reason, error: toErrorText(error), key: loose, ...stored }
    const values = [JSON.stringify([row]), String(consumerId)]
    // One statement for each: refused messages are rare, and each carries its delivery.
    if (isInParts(delivery, maxStoredBytes)) {
      await driver.shortTransaction(async (connection) => {
        await connection.query(statements.refuse, values)
        await writeBody(context, connection, { kind: 'refused', id, delivery })
      })
    } else await driver.durable(statements.refuse, values)
  }
  return ids.map((id) => ({ kind: 'refused', id }))
}

/** Deletes a replayed message. */
export async function resolveRefused(
  { driver, statements }: ConsumerContext,
  id: string,
): Promise<void> {
  await driver.query(statements.resolveRefused, [id])
}

export function refusedId(consumerId: number, delivery: Delivery): string {
  return toUuid(messageHash(consumerId, delivery))
}

/** The leading 128 bits. */
export function toUuid(hex: string): string {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, '$1-$2-$3-$4-$5')
}
