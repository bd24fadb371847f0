import type { Delivery } from '../model/delivery.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { asMarked, ITEM_HEADER } from '../settlement/item-mark.ts'

const NOT_OURS =
  'a message has the header x-onceward-item without the mark of this consumer, so it is split like any other: let its producer copy no header that begins with x-onceward-, and replay an item with `onceward dead-letters replay`'

/** The deliveries, of which those are items that have the mark of one: dead letters that were put back on their queue. */
export function withItems(
  { consumer, reportOnce }: ResolvedOptions,
  { engine, secret }: { readonly engine: unknown; readonly secret: Uint8Array },
  deliveries: readonly Delivery[],
): readonly Delivery[] {
  // Without an inbox no item has a dead letter of its own.
  if (engine === undefined) return deliveries
  if (!deliveries.some(({ headers }) => headers[ITEM_HEADER] !== undefined)) return deliveries
  return deliveries.map((delivery) => {
    if (delivery.headers[ITEM_HEADER] === undefined) return delivery
    const marked = asMarked({ consumer, secret }, delivery)
    if (marked.item === undefined)
      reportOnce('warn', { consumer, source: delivery.source }, NOT_OURS)
    return marked
  })
}
