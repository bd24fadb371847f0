import { createHash } from 'node:crypto'
import type { DeadLetterRef, Delivery, Refusal } from '@onceward/core'
import type { ConsumerContext, StoringContext } from '../driver/rows.ts'
import { storeDelivery } from '../statements/delivery-columns.ts'
import { escapeLooseKey, toErrorText } from '../statements/text-columns.ts'
import { isInParts, writeBody } from './bodies.ts'

/** Headers in which brokers count deliveries. A redelivery of the same message has other values. */
const VOLATILE_HEADERS = /^x-(death|first-death-|last-death-|delivery-count|acquired-count)/

/** Stores messages that were refused before they became an event. A redelivery finds the row of the first delivery. */
export async function refuse(
  context: StoringContext,
  refusals: readonly Refusal[],
): Promise<readonly DeadLetterRef[]> {
  const { driver, statements, consumerId, maxStoredBytes } = context
  const ids = refusals.map(({ delivery }) => refusedId(consumerId, delivery))
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

/**
 * Leading 128 bits of SHA-256 over the parts that are the same in every delivery of a message, each preceded by its
 * length.
 */
export function refusedId(consumerId: number, delivery: Delivery): string {
  const { source, messageId = '', body, headers } = delivery
  const stable = Object.entries(headers)
    .filter(([name]) => !VOLATILE_HEADERS.test(name))
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
  const identity = [consumerId, source.broker, source.queue, source.position, messageId, stable]
  const hash = createHash('sha256')
  for (const part of [Buffer.from(JSON.stringify(identity)), body]) {
    const length = Buffer.alloc(4)
    length.writeUInt32BE(part.byteLength)
    hash.update(length).update(part)
  }
  return toUuid(hash.digest('hex'))
}

function toUuid(hex: string): string {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, '$1-$2-$3-$4-$5')
}
