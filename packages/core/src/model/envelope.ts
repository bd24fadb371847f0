import type { Delivery } from './delivery.ts'
import { processTable } from './process-table.ts'

/** Reads the client's own message object back from a stored delivery. Throws if the envelope cannot be read. */
export type EnvelopeReader = (delivery: Delivery) => unknown

const readers = processTable<EnvelopeReader>('envelope-readers')

/** Each adapter registers its reader when it is loaded, so every guard of the process can restore stored deliveries. */
export function registerEnvelopeReader(broker: string, read: EnvelopeReader): void {
  readers.set(broker, read)
}

/**
 * A stored delivery with the client's message in `raw`, as on its first run.
 *
 * @param onUnreadable - Told if the envelope cannot be read. The delivery is then used as it is.
 */
export function withRaw(delivery: Delivery, onUnreadable: (error: unknown) => void): Delivery {
  const read = readers.get(delivery.source.broker)
  if (read === undefined || delivery.raw !== undefined || delivery.envelope === undefined) {
    return delivery
  }
  try {
    return { ...delivery, raw: read(delivery) }
  } catch (error) {
    onUnreadable(error)
    return delivery
  }
}
