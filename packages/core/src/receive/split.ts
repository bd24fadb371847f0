import type { Decoded } from '../messages/decode.ts'
import { copyDelivery, type Delivery } from '../model/delivery.ts'
import { describeError, InvalidPayloadError } from '../model/errors.ts'
import { withEscapes } from '../support/json-text.ts'

/** Most items of one delivery. */
export const MOST_ITEMS = 10_000

/**
 * One delivery for each item. Its body is the item as JSON, whatever the format of the message. It is read from this
 * body in its first run too, so that its first run and its replay see the same.
 *
 * @throws {@link InvalidPayloadError} if the answer of `split` cannot be used.
 */
export function toItems(delivery: Delivery, items: unknown): readonly Delivery[] {
  if (!Array.isArray(items)) {
    const got = items === null ? 'null' : typeof items
    throw new InvalidPayloadError(`\`split\` found no array of items in this message, but ${got}.`)
  }
  if (items.length > MOST_ITEMS) {
    throw new InvalidPayloadError(
      `The message has ${items.length} items, more than ${MOST_ITEMS}. Let its producer send smaller ones.`,
    )
  }
  return Array.from(items, (item: unknown, index) => toItem(delivery, item, index))
}

function toItem(delivery: Delivery, item: unknown, index: number): Delivery {
  const { contentType, messageId, source } = delivery
  const { hasBigints, text } = serializeItem(item, index)
  const numbered = (name: string | undefined) => name && `${name}#${index}`
  return copyDelivery(delivery, {
    body: Buffer.from(text),
    item: { index, hasBigints },
    source: { ...source, position: numbered(source.position) },
    messageId: numbered(messageId),
    contentType: contentType?.startsWith('application/cloudevents-batch')
      ? 'application/cloudevents+json'
      : 'application/json',
    contentEncoding: undefined,
  })
}

/** Not yet in the types of TypeScript's library. */
const { rawJSON } = JSON as unknown as { readonly rawJSON: (text: string) => unknown }

function serializeItem(
  item: unknown,
  index: number,
): { readonly text: string; hasBigints: boolean } {
  let hasBigints = false
  let why: string = typeof item
  try {
    const text = JSON.stringify(item, (_, value: unknown) => {
      if (typeof value !== 'bigint') return value
      hasBigints = true
      return rawJSON(String(value))
    }) as string | undefined
    // The text is that of its dead letter too.
    if (text !== undefined) return { text: withEscapes(text), hasBigints }
  } catch (error) {
    why = describeError(error).name
  }
  throw new InvalidPayloadError(
    `Item ${index} of this message is no JSON (${why}). Let \`split\` return values that JSON can hold.`,
  )
}

/** The payload of an item, from {@link toItems}, a store or a dead letter that was put back. */
export function decodeItem(
  { body, item }: Delivery,
  decodeJson: (body: Uint8Array) => Decoded,
): Decoded {
  const decoded = decodeJson(body)
  if (item?.hasBigints !== true) return decoded
  const value: unknown = JSON.parse(Buffer.from(body).toString(), withBigints)
  return { ...decoded, value, rounded: undefined }
}

const INTEGER = /^-?\d+$/

function withBigints(this: unknown, _: string, value: unknown, context?: unknown): unknown {
  const { source = '' } = Object(context) as { readonly source?: string }
  return typeof value === 'number' && !Number.isSafeInteger(value) && INTEGER.test(source)
    ? BigInt(source)
    : value
}
