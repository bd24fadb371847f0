import { type Delivery, type Seal, SealError } from '@onceward/core'
import { openDelivery, Sealer, systemRuntime } from '@onceward/core/ports'
import type { DeadLetterRow } from '../statements/dead-letters.ts'

/** Why the delivery of a dead letter is not shown. */
export interface Unopened {
  /** Bytes of the sealed body. */
  readonly bytes: number
  /** Why it cannot be opened. */
  readonly error: SealError
}

/** What is sealed is shown to nobody, and cannot be sent on by mistake: body, headers and envelope are left out. */
export interface ReadDelivery {
  readonly delivery: Delivery
  readonly sealed?: Unopened | undefined
}

/** The delivery of a dead letter as it came, or without what cannot be opened. */
export async function readOpened(
  seal: Seal | undefined,
  consumer: string,
  stored: Delivery,
): Promise<ReadDelivery> {
  if (stored.sealed !== true) return { delivery: stored }
  try {
    const sealer = new Sealer(seal, { consumer, runtime: systemRuntime })
    return { delivery: await openDelivery(sealer, stored) }
  } catch (error) {
    if (!(error instanceof SealError)) throw error
    const { envelope: _envelope, sealed: _sealed, ...shown } = stored
    const sealed = { bytes: stored.body.byteLength, error }
    return { delivery: { ...shown, body: new Uint8Array(), headers: {} }, sealed }
  }
}

/** Whether a row has the delivery that was read before. Every sealing of one delivery has other bytes. */
export function hasSameDelivery(row: DeadLetterRow, before: DeadLetterRow): boolean {
  const columns = ['properties', 'headers', 'envelope', 'body', 'bodyBytes', 'bodyParts'] as const
  return columns.every((column) => row[column] === before[column])
}
