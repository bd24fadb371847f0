import type { Delivery } from './delivery.ts'

/** Reads the client's own message object back from a stored delivery. Throws if the envelope cannot be read. */
export type EnvelopeReader = (delivery: Delivery) => unknown

const READERS = Symbol.for('onceward.envelope-readers')

/** One table for the process: two copies of this package may be loaded. */
function readers(): Map<string, EnvelopeReader> {
  const shared = globalThis as { [READERS]?: Map<string, EnvelopeReader> }
  shared[READERS] ??= new Map()
  return shared[READERS]
}

/** Each adapter registers its reader when it is loaded, so every guard of the process can restore stored deliveries. */
export function registerEnvelopeReader(broker: string, read: EnvelopeReader): void {
  readers().set(broker, read)
}

/**
 * A stored delivery with the client's message in `raw`, as on its first run.
 *
 * @param onUnreadable - Told if the envelope cannot be read. The delivery is then used as it is.
 */
export function withRaw(delivery: Delivery, onUnreadable: (error: unknown) => void): Delivery {
  const read = readers().get(delivery.source.broker)
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
