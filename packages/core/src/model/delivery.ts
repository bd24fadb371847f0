import type { DeliveryPlace } from './fence.ts'

/** What the getters of an object read. Not enumerable: a copy has their values instead. */
const STATE: unique symbol = Symbol('state of the getters')

interface WithState<State> {
  readonly [STATE]: State
}

/**
 * A getter for {@link withGetters}: a property of the object itself, so that a spread copies its value. It also works for
 * objects that inherit it, and behind a proxy.
 */
export function ownGetter<State>(read: (state: State) => unknown): PropertyDescriptor {
  return {
    get(this: WithState<State>) {
      return read(this[STATE])
    },
    enumerable: true,
    configurable: true,
  }
}

/**
 * Adds getters to an object, for objects that are made for every event: V8 gives each object whose literal has a getter
 * the slow form of a dictionary. These share their getters, and read their own state.
 */
export function withGetters<Made extends object>(
  fields: Partial<Made>,
  state: unknown,
  getters: readonly (readonly [name: keyof Made, getter: PropertyDescriptor])[],
): Made {
  for (const [name, getter] of getters) Object.defineProperty(fields, name, getter)
  Object.defineProperty(fields, STATE, { value: state })
  return fields as Made
}

/** The state that {@link withGetters} gave an object itself. */
export const stateOf = (made: object): unknown => (made as Partial<WithState<unknown>>)[STATE]

/** Where a delivery came from. */
export interface DeliverySource {
  /** `kafka`, `sqs`, `amqp`, … */
  readonly broker: string
  /** Queue name or URL; on Kafka the topic. */
  readonly queue: string
  /**
   * Distinguishes queues of the same name: on RabbitMQ the virtual host, on Kafka the id of the cluster. Dead letters
   * are published only by a consumer of the same one, or if it is unknown.
   */
  readonly namespace?: string | undefined
  /** Transport coordinates: on Kafka `partition/offset`, on SQS the message id. */
  readonly position?: string | undefined
  /**
   * Distinguishes messages at the same position of different logs: the cluster, and a value that changes when a topic
   * is created again. Used only by the identity that `position()` makes.
   */
  readonly incarnation?: string | undefined
}

/** One delivery of a message by a broker, as an adapter passes it to the guard. */
export interface Delivery {
  readonly body: Uint8Array
  /** Lower-case names. Of a repeated header, the last value. Text only. */
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly source: DeliverySource
  readonly contentType?: string | undefined
  /**
   * How the producer compressed the body: `gzip`, `deflate`, `br`, or several, with commas between. `body` is as it came;
   * `decode` gets it inflated (see `maxInflatedBytes`).
   */
  readonly contentEncoding?: string | undefined
  /** The broker's or the publisher's id of the message. It is not an identity unless you say so: see `messageId()`. */
  readonly messageId?: string | undefined
  /** Deliveries with the same ordering key run in delivery order. The record key or the message group. */
  readonly orderingKey?: string | undefined
  readonly producedAt?: Date | undefined
  /** How often the broker has delivered this message, including this time. A hint. */
  readonly deliveryCount?: number | undefined
  /** The broker says it may have delivered this message before. */
  readonly redelivered?: boolean | undefined
  /**
   * The adapter's lossless encoding of the message without its body: key, properties, attributes and headers with type,
   * order, repetition and case. Made when it is read. Stores keep it beside the body and never look inside; a dead
   * letter and a replay are made from it.
   */
  readonly envelope?: Uint8Array | undefined
  /** The client's own message object. */
  readonly raw?: unknown
  /** Given if the place of a record is the identity of its event: `consumeKafka` with `identity: 'offsets'`. */
  readonly place?: DeliveryPlace | undefined
  /**
   * Says that this is one item of a delivery that was split: it is not split again. Set by onceward and kept by the
   * stores. An adapter never sets it, because no producer may.
   */
  readonly item?: DeliveryItem | undefined
  /**
   * Says that body, headers and envelope are sealed, as the option `seal` of the guard stores them. Set by onceward and kept
   * by the stores; no user's function sees such a delivery. An adapter never sets it, because no producer may.
   */
  readonly sealed?: true | undefined
}

/** Which item of a delivery that was split. */
export interface DeliveryItem {
  readonly index: number
  /** It has an integer beyond what a number of JavaScript holds. */
  readonly hasBigints: boolean
}

/**
 * Names of headers that only onceward writes. Whoever else sends them says nothing by them: no function of the user sees
 * them, and no message of the outbox has them.
 */
const isReservedHeader = (name: string): boolean => name.toLowerCase().startsWith('x-onceward-')

/** A copy of the headers without the reserved ones. */
export function unreservedHeaders<Value>(
  headers: Readonly<Record<string, Value>>,
): Record<string, Value> {
  const own = { ...headers }
  for (const name of Object.keys(own)) {
    // Most names begin with another letter.
    if ((name[0] === 'x' || name[0] === 'X') && isReservedHeader(name)) delete own[name]
  }
  return own
}

/** The delivery as functions of the user see it. */
export function unreserved(delivery: Delivery): Delivery {
  return Object.keys(delivery.headers).some(isReservedHeader)
    ? copyDelivery(delivery, { headers: unreservedHeaders(delivery.headers) })
    : delivery
}

/**
 * A copy with other fields. The envelope stays lazy: a spread would encode the message, and clean deliveries must not
 * pay for that.
 */
export function copyDelivery<Changes extends object>(
  delivery: Delivery,
  changes: Changes,
): Delivery & Changes {
  const { body, headers, source, contentType, contentEncoding, messageId, orderingKey } = delivery
  const { deliveryCount, item, place, redelivered, raw } = delivery
  // A date of its own, because `setHours` changes the date that it is called on.
  const producedAt = delivery.producedAt && new Date(delivery.producedAt.getTime())
  const fields = { body, headers, source, contentType, contentEncoding, messageId, orderingKey }
  const copy = { ...fields, producedAt, deliveryCount, redelivered, raw }
  if (place !== undefined) Object.assign(copy, { place })
  if (item !== undefined) Object.assign(copy, { item })
  // A copy of a copy keeps only the original: a message that is held again and again is copied each time.
  const state = stateOf(delivery)
  const copied = state instanceof Copied ? state : new Copied(delivery)
  return Object.assign(withGetters<Delivery>(copy, copied, COPY), changes)
}

/** The bytes in an array of their own, for functions that may change them. `slice` of a Buffer returns a Buffer. */
export const copyBody = ({ body }: Pick<Delivery, 'body'>): Uint8Array =>
  Uint8Array.prototype.slice.call(body)

class Copied {
  readonly original: Delivery
  constructor(original: Delivery) {
    this.original = original
  }
}

const COPY = [['envelope', ownGetter(({ original }: Copied) => original.envelope)]] as const

/** A delivery with a decoded body, before the key is known. */
export interface DecodedDelivery<Payload> extends Delivery {
  readonly payload: Payload
}

/** The event that a handler receives. */
export interface GuardEvent<Payload> extends DecodedDelivery<Payload> {
  readonly key: string
  readonly tenant?: string | undefined
  /** The type of the message, of a guard with `on`: the name of the handler there. */
  readonly type?: string | undefined
  /** 1-based; crashes count. */
  readonly attempt: number
  /** The same for all attempts and processes. Pass it to services outside the transaction. */
  readonly idempotencyKey: string
}
