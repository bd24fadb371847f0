import { copyDelivery, type Delivery, type DeliveryItem } from '../model/delivery.ts'
import { createHmac, timingSafeEqual } from '../node.ts'

/**
 * On the dead letter of an item, so that it is one item too when it is put back on its queue. Any producer can write the
 * header, so it holds what only a guard with this inbox can compute for this body.
 */
export const ITEM_HEADER = 'x-onceward-item'

const MARK = /^(\d{1,5})(n?)\.([\w-]{43})$/

/** Of whom a mark is. */
export interface Marking {
  readonly consumer: string
  /** The secret of the inbox. */
  readonly secret: Uint8Array
}

/** The mark of an item. Undefined for other deliveries. */
export function itemMark(marking: Marking, { body, item }: Delivery): string | undefined {
  if (item === undefined) return undefined
  return `${numberOf(item)}.${proofOf(marking, item, body).toString('base64url')}`
}

/** The delivery, as an item if it has the mark of one. */
export function asMarked(marking: Marking, delivery: Delivery): Delivery {
  const [, index, flag, proof] = MARK.exec(delivery.headers[ITEM_HEADER] ?? '') ?? []
  if (index === undefined || proof === undefined) return delivery
  const item = { index: Number(index), hasBigints: flag !== '' }
  const expected = proofOf(marking, item, delivery.body)
  const given = Buffer.from(proof, 'base64url')
  return timingSafeEqual(given, expected) ? copyDelivery(delivery, { item }) : delivery
}

const numberOf = ({ hasBigints, index }: DeliveryItem): string => `${index}${hasBigints ? 'n' : ''}`

/** The consumer is part of it: an item of one consumer may be a message with several events for another one. */
function proofOf({ consumer, secret }: Marking, item: DeliveryItem, body: Uint8Array): Buffer {
  const about = JSON.stringify(['the item of a delivery', consumer, numberOf(item)])
  return createHmac('sha256', secret).update(about).update(body).digest()
}
