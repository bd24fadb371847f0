import type { Delivery } from '@onceward/core'
import type { DeadLetterRef } from '@onceward/core/ports'
import type { Connection, QueryAnswer } from '../driver/driver.ts'
import { answers, type StoringContext, texts } from '../driver/rows.ts'
import type { DeadLetterRow } from '../statements/dead-letters.ts'
import {
  bodyPart,
  isSmall,
  isStorable,
  PART_BYTES,
  readDelivery,
  storeDelivery,
} from '../statements/delivery-columns.ts'
import type { Statements } from '../statements/index.ts'

type BodyContext = Pick<StoringContext, 'statements' | 'maxStoredBytes'>

/** Whether the body is stored in pieces, beside its row. */
export function isInParts(delivery: Delivery, maxStoredBytes: number): boolean {
  return delivery.body.byteLength > PART_BYTES && isStorable(delivery, maxStoredBytes)
}

/** Stores a large body piece by piece, so that neither side needs a copy of it. In the transaction that wrote its row. */
export async function writeBody(
  { statements, maxStoredBytes }: BodyContext,
  connection: Connection,
  { kind, id, delivery }: DeadLetterRef & { readonly delivery: Delivery },
): Promise<void> {
  if (!isInParts(delivery, maxStoredBytes)) return
  const { body } = delivery
  const { writePart } = statements.bodies[kind]
  for (let part = 0; part * PART_BYTES < body.byteLength; part += 1) {
    await connection.query(writePart, [id, String(part), bodyPart(body, part)])
  }
}

interface Reader {
  query(text: string, values?: readonly unknown[]): Promise<Pick<QueryAnswer, 'rows'>>
}

/**
 * The stored delivery of a row. A large body is read piece by piece.
 *
 * @throws {@link UnreadableError} if a piece is missing. Outside of the transaction that locks the row, its dead letter may
 *   have ended meanwhile, which deletes the pieces.
 */
export async function readStored(
  statements: Statements,
  connection: Reader,
  row: DeadLetterRow,
): Promise<Delivery> {
  if (row.bodyParts === 0) return readDelivery(row)
  const { readPart } = statements.bodies[row.kind]
  const body = new Uint8Array(row.bodyBytes)
  for (let part = 0; part < row.bodyParts; part += 1) {
    const [bytes] = texts(await connection.query(readPart, [row.id, String(part)]))
    if (bytes === undefined) throw new UnreadableError(row, new Error(`piece ${part} is missing`))
    body.set(Buffer.from(bytes, 'base64'), part * PART_BYTES)
  }
  return readDelivery(row, body)
}

interface NamedRow {
  readonly id: string
  readonly kind: 'event' | 'refused'
}

/** A stored delivery that is not what this version writes. */
export class UnreadableError extends Error {
  override readonly name = 'UnreadableError'

  constructor({ id, kind }: NamedRow, cause: Error) {
    super(
      `The stored delivery of ${kind === 'event' ? 'event' : 'refused message'} ${id} cannot be read. If a newer version of onceward stored it, update onceward; otherwise discard it.`,
      { cause },
    )
  }
}

/** Names the row if it cannot be read. */
export async function readNamed<Result>(
  row: NamedRow,
  read: () => Result | Promise<Result>,
): Promise<Result> {
  try {
    return await read()
  } catch (cause) {
    // Only of JSON: an error of the database concerns every row.
    throw cause instanceof SyntaxError ? new UnreadableError(row, cause) : cause
  }
}

/**
 * Whether the row of a dead letter holds its whole delivery. If the delivery was too large when the row was written, and
 * the bound has been raised since, it is stored now.
 */
export async function isWhole(
  context: StoringContext,
  ref: DeadLetterRef,
  delivery: Delivery,
): Promise<boolean> {
  if (isSmall(delivery)) return true
  const { driver, statements, maxStoredBytes } = context
  const { lockBody, replaceDelivery } = statements.bodies[ref.kind]
  return driver.shortTransaction(async (connection) => {
    const [row] = answers<{ readonly isWhole: boolean }>(await connection.query(lockBody, [ref.id]))
    // Without a row, an operator has dealt with the dead letter.
    if (row === undefined || row.isWhole) return true
    if (!isStorable(delivery, maxStoredBytes)) return false
    const stored = { id: ref.id, ...storeDelivery(delivery, maxStoredBytes) }
    await connection.query(replaceDelivery, [JSON.stringify([stored])])
    await writeBody(context, connection, { ...ref, delivery })
    return true
  })
}
