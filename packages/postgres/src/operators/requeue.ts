import { randomUUID } from 'node:crypto'
import { ConfigurationError, type Delivery, type DeliverySource, type Seal } from '@onceward/core'
import { messageOf, withTimeout } from '@onceward/core/adapter'
import { systemRuntime } from '@onceward/core/ports'
import { inTransaction } from '../client.ts'
import { texts } from '../driver/rows.ts'
import { readNamed, readStored } from '../inbox/bodies.ts'
import type { DeadLetterRow } from '../statements/dead-letters.ts'
import { isOmitted, readDelivery } from '../statements/delivery-columns.ts'
import { unescapeText } from '../statements/text-columns.ts'
import { hasSameDelivery, readOpened } from './opened-delivery.ts'
import {
  actOn,
  isFreed,
  isOpen,
  type Operation,
  readDeadLetter,
  type UntouchedLetter,
} from './operator-actions.ts'

/** Sends messages back to the queues of one broker. */
export interface QueueSender {
  /** Whether it sends to the queue that a delivery came from. */
  owns(source: DeliverySource): boolean
  /** Resolves if the queue is there and its broker answers. Called before anything is changed. */
  ready(source: DeliverySource): Promise<void>
  /**
   * Resolves once the broker has confirmed the message, within 20 seconds.
   *
   * @throws {@link ConfigurationError} when the broker has certainly not taken it. After other errors it may have.
   */
  send(delivery: Delivery): Promise<void>
}

/** A broker that does not confirm is given up, well before the right to send ends. */
const SEND_MS = 20_000
const RIGHT_MS = 30_000

export interface Requeue extends Omit<Operation, 'act'> {
  readonly by: string | null
  readonly sender: QueueSender
  readonly seal?: Seal | undefined
}

/**
 * Frees the event, sends its message, and deletes the message once it is confirmed. No transaction is open while the
 * broker is asked.
 */
export async function requeue(
  operation: Requeue,
  id: string,
): Promise<UntouchedLetter | undefined> {
  const { pool, statements, sender } = operation
  const seen = await inTransaction(pool, (client) => readDeadLetter(client, statements, id))
  if (seen !== undefined && isOpen(seen)) {
    const { source } = await readNamed(seen, () => readDelivery(seen))
    if (!sender.owns(source)) return { why: 'other-queue' }
    await sender.ready(source)
  }
  const opened = seen && (await openedBefore(operation, seen))
  if (opened !== undefined && 'why' in opened) return opened
  const token = randomUUID()
  const freed = await free(operation, { id, token, opened })
  if ('why' in freed) return freed
  const { delivery, row } = freed
  try {
    const limits = { call: 'the broker', budgetMs: SEND_MS }
    await withTimeout(systemRuntime, sender.send(delivery), limits)
  } catch (error) {
    return notConfirmed(operation, { row, token, error })
  }
  const { confirmEvent, confirmRefused } = statements
  const confirm = row.kind === 'event' ? confirmEvent : confirmRefused
  // One row, fenced by the token. A guard that runs the copy may hold the row of the event for long.
  await inTransaction(pool, (client) => client.query(confirm, [row.id, token, operation.by]))
  return undefined
}

interface Opened {
  readonly row: DeadLetterRow
  readonly delivery: Delivery
}

/** A sealed message is opened before anything is changed, and while nothing is locked. Undefined: it is not sealed. */
async function openedBefore(
  { pool, seal, statements }: Requeue,
  row: DeadLetterRow,
): Promise<Opened | UntouchedLetter | undefined> {
  if (!isOpen(row) || isOmitted(row) || readDelivery(row).sealed !== true) return undefined
  const stored = await readNamed(row, () =>
    inTransaction(pool, (client) => readStored(statements, client, row)),
  )
  const { delivery, sealed } = await readOpened(seal, row.consumer, stored)
  return sealed === undefined ? { row, delivery } : { why: 'sealed', error: sealed.error.message }
}

interface Freeing {
  readonly id: string
  readonly token: string
  readonly opened: Opened | undefined
}

interface Freed {
  readonly row: DeadLetterRow
  readonly delivery: Delivery
}

async function free(
  operation: Requeue,
  { id, opened, token }: Freeing,
): Promise<Freed | UntouchedLetter> {
  const { by, statements } = operation
  let freed: Freed | undefined
  const why = await actOn(
    {
      ...operation,
      act: async (client, row) => {
        if (row.kind === 'refused' && isFreed(row)) return 'unconfirmed'
        if (readDelivery(row).item !== undefined) return 'item'
        if (isBrokersKey(row)) return 'broker-key'
        const isSealed = readDelivery(row).sealed === true
        // It has died again since it was read.
        if (isSealed && !(opened && hasSameDelivery(row, opened.row))) return 'held'
        const { freeEvent, freeRefused } = statements
        const values = [row.id, token, String(RIGHT_MS), by]
        const text = row.kind === 'event' ? freeEvent : freeRefused
        // An earlier requeue may be confirmed only now, without a lock of the event.
        if (texts(await client.query(text, values)).length === 0) return 'not-dead'
        // From here on that one has no right to delete the message.
        const delivery = isSealed ? opened?.delivery : undefined
        freed = { row, delivery: delivery ?? (await readStored(statements, client, row)) }
        return undefined
      },
    },
    id,
  )
  // A run that loses its race is rolled back, so what it freed does not count.
  return why === undefined && freed !== undefined ? freed : { why: why ?? 'unknown' }
}

/**
 * Whether the key is made of what the broker gave the message and would give its copy again: the copy would be another
 * event, whose effect could happen beside that of this one.
 */
function isBrokersKey(row: DeadLetterRow): boolean {
  if (row.key === null) return false
  const key = unescapeText(row.key)
  const { source } = readDelivery(row)
  if (key.startsWith('position:')) return true
  const { position, queue } = source
  if (position === undefined || position === '') return false
  if (!COUNTED.test(position)) return key.includes(position)
  return key === position || (key.includes(queue) && hasNumbers(key, position))
}

/** A position that the broker counts from 1, such as `7` or `0/12`, may be part of any key. */
const COUNTED = /^\d{1,20}(\/\d{1,20})?$/

/** Not as parts of longer numbers. */
function hasNumbers(key: string, position: string): boolean {
  const numbers = key.split(/\D/)
  return position.split('/').every((each) => numbers.includes(each))
}

interface Failed {
  readonly row: DeadLetterRow
  readonly token: string
  readonly error: unknown
}

async function notConfirmed(
  { pool, statements }: Requeue,
  { row, token, error }: Failed,
): Promise<UntouchedLetter> {
  const isCertain = error instanceof ConfigurationError
  const { restoreRefused, unconfirmEvent, unconfirmRefused } = statements
  const isAsBefore = isCertain && row.kind === 'refused'
  const text = row.kind === 'event' ? unconfirmEvent : unconfirmRefused
  const before = [String(row.parked), String(row.published)]
  await inTransaction(pool, (client) =>
    isAsBefore
      ? client.query(restoreRefused, [row.id, token, ...before])
      : client.query(text, [row.id, token]),
  )
  return { why: isCertain ? 'not-sent' : 'unconfirmed', error: messageOf(error) }
}
