import type { Delivery } from '../model/delivery.ts'
import { createHash } from '../node.ts'

/** A table by the name of the broker. The process has one of each name: two copies of this package may be loaded. */
export function processTable<Entry>(name: string): Map<string, Entry> {
  const key = Symbol.for(`onceward.${name}`)
  const shared = globalThis as { [key: symbol]: Map<string, Entry> | undefined }
  shared[key] ??= new Map()
  return shared[key]
}

/** Reads the client's own message object back from a stored delivery. Throws if the envelope cannot be read. */
export type EnvelopeReader = (delivery: Delivery) => unknown

const readers = processTable<EnvelopeReader>('envelope-readers')

/**
 * Each adapter registers its reader when it is loaded, so every guard of the process can restore stored deliveries.
 *
 * @returns what finds the message that a delivery was made of, also of a stored one. Undefined for another broker's
 * deliveries, and for a stored one whose envelope cannot be read.
 */
export function registerEnvelopeReader<Message>(
  broker: string,
  read: (delivery: Delivery) => Message,
): (delivery: Delivery) => Message | undefined {
  readers.set(broker, read)
  return (delivery) => {
    const { envelope, raw, source } = delivery
    if (source.broker !== broker) return undefined
    if (typeof raw === 'object' && raw !== null) return raw as Message
    try {
      return envelope === undefined ? undefined : read(delivery)
    } catch {
      return undefined
    }
  }
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

/** Headers in which brokers count deliveries. A redelivery of the same message has other values. */
const VOLATILE_HEADERS = /^x-(death|first-death-|last-death-|delivery-count|acquired-count)/

/** What distinguishes two messages beside the fields of their deliveries, read from the client's own message object. */
export type MessageTraits = (raw: object) => unknown

const traits = processTable<MessageTraits>('message-traits')

/** Each adapter whose messages need more than their position and id registers its function when it is loaded. */
export function registerMessageTraits(broker: string, read: MessageTraits): void {
  traits.set(broker, read)
}

const types = processTable<MessageTraits>('message-types')

/** Each adapter whose messages have a property for their type registers how to read it when it is loaded. */
export function registerMessageTypes(broker: string, read: MessageTraits): void {
  types.set(broker, read)
}

/** The broker's own property for the type of a message. */
export function brokerTypeOf({ raw, source }: Delivery): unknown {
  const read = types.get(source.broker)
  if (read === undefined || typeof raw !== 'object' || raw === null) return undefined
  try {
    return read(raw)
  } catch {
    // A delivery that the user made may have any object there.
    return undefined
  }
}

/** What identifies one delivery of a message that has neither a position nor an id. */
export interface DeliveryName {
  /** Of this delivery alone. */
  readonly id: string
  /** The delivery was stored, so that its name is the same each time it runs. */
  readonly isStored: boolean
}

const names = processTable<(raw: object) => DeliveryName | undefined>('delivery-names')

/** For adapters whose messages may have neither a position nor an id. Equal messages are told apart by these names. */
export function registerDeliveryNames(
  broker: string,
  read: (raw: object) => DeliveryName | undefined,
): void {
  names.set(broker, read)
}

/** Undefined for a message that has a position or an id, and where the adapter gives no names. */
export function deliveryNameOf({ messageId, raw, source }: Delivery): DeliveryName | undefined {
  if (messageId !== undefined || (source.position ?? '') !== '') return undefined
  return typeof raw === 'object' && raw !== null ? names.get(source.broker)?.(raw) : undefined
}

/**
 * Identifies one message, however often it is delivered and for whatever reason it is refused. 64 hex digits. If nothing
 * identifies the message, this is the hash of its delivery: equal messages are counted and dead-lettered one by one.
 *
 * @param consumer - Name or number of the consumer.
 */
export function messageHash(consumer: string | number, delivery: Delivery): string {
  const name = deliveryNameOf(delivery)
  return hashOf(consumer, delivery, name === undefined ? [] : [name.id])
}

/**
 * Identifies the message whose read is counted before it begins. A process that dies takes the name of its delivery along,
 * so a message that nothing identifies is known by its content alone: whatever ended the process would do so again.
 */
export function readHash(consumer: string | number, delivery: Delivery): string {
  return deliveryNameOf(delivery)?.isStored === true
    ? messageHash(consumer, delivery)
    : hashOf(consumer, delivery, [])
}

function hashOf(consumer: string | number, delivery: Delivery, name: readonly string[]): string {
  const { source, messageId, headers, body } = delivery
  // Two items of a message may be equal, and a message may have neither a position nor an id.
  const part = delivery.item === undefined ? [] : [delivery.item.index]
  const { broker, position, queue } = source
  const place = [broker, queue, position, messageId, ...traitsOf(delivery), ...part, ...name]
  const stable = Object.entries(headers)
    .filter(([name]) => !VOLATILE_HEADERS.test(name))
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
  return createHash('sha256')
    .update(identityText([consumer, ...place], stable))
    .update(body)
    .digest('hex')
}

function traitsOf({ raw, source }: Delivery): readonly unknown[] {
  const read = traits.get(source.broker)
  if (read === undefined || typeof raw !== 'object' || raw === null) return []
  try {
    return [read(raw)]
  } catch {
    // A delivery that the user made may have any object there.
    return []
  }
}

/** Headers are texts. A custom consumer may pass others, also values that JSON refuses, like a BigInt. */
function identityText(
  place: readonly unknown[],
  headers: readonly (readonly [string, unknown])[],
): string {
  try {
    return JSON.stringify([...place, headers])
  } catch {
    const texts = headers.filter(([, value]) => typeof value === 'string')
    return JSON.stringify([...place.map(String), texts])
  }
}
