import type { DeliverySource } from '@onceward/core'
import type { Attributes } from '@opentelemetry/api'
import { CONVENTIONS, OTHER, SYSTEMS } from './names.ts'

/** Destinations with series of their own. Topics of a pattern may be without number. */
const MOST_DESTINATIONS = 200

const LONGEST_NAME = 256

/** `messaging.system.name` and `messaging.destination.name` of a delivery. */
export function sourceAttributes({ broker, queue }: DeliverySource): Attributes {
  return {
    [CONVENTIONS.system]: (SYSTEMS[broker] ?? broker).slice(0, LONGEST_NAME),
    [CONVENTIONS.destination]: destinationName({ broker, queue }),
  }
}

/** On SQS the queue's name without host and account. */
export function destinationName({ broker, queue }: DeliverySource): string {
  const name = broker === 'sqs' ? queue.slice(queue.lastIndexOf('/') + 1) : queue
  return name.slice(0, LONGEST_NAME)
}

/** Bounds the destinations: those that come after the first ones share `_OTHER`. The same source, the same object. */
export function boundedSources(): (source: DeliverySource) => Attributes {
  const known = new Map<string, Attributes>()
  const other = { [CONVENTIONS.system]: OTHER, [CONVENTIONS.destination]: OTHER }
  return (source) => {
    const id = `${source.broker}\n${source.queue}`
    const found = known.get(id)
    if (found !== undefined) return found
    if (known.size >= MOST_DESTINATIONS) return other
    const attributes = sourceAttributes(source)
    known.set(id, attributes)
    return attributes
  }
}
