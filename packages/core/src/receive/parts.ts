import type { Delivery } from '../model/delivery.ts'
import { identifyAll, type ReadContext, type Seen } from './read.ts'

/** What step 1 found in the deliveries of a call, after those that hold several events were split. */
export interface Parts {
  /** In delivery order, and in the order of the items in their delivery. */
  readonly deliveries: readonly Delivery[]
  readonly seen: readonly Seen[]
  /** For each of them, the index of the delivery that it is, or that it is an item of. */
  readonly wholes: readonly number[]
  readonly isItem: readonly boolean[]
}

/** Identifies the items of deliveries that were split, as deliveries of their own. */
export async function identifyItems(
  context: ReadContext,
  deliveries: readonly Delivery[],
  seen: readonly Seen[],
): Promise<Parts> {
  const items = seen.flatMap((each) => (each.kind === 'split' ? each.items : []))
  const read = await identifyAll(context, items)
  let next = 0
  const all: { delivery: Delivery; seen: Seen; whole: number; isItem: boolean }[] = []
  for (const [whole, each] of seen.entries()) {
    if (each.kind !== 'split') {
      all.push({ delivery: deliveries[whole] as Delivery, seen: each, whole, isItem: false })
      continue
    }
    const found = read.slice(next, next + each.items.length)
    next += each.items.length
    for (const [n, delivery] of each.items.entries()) {
      all.push({ delivery, seen: found[n] as Seen, whole, isItem: true })
    }
    warnOfSharedKey(context, found)
  }
  return {
    deliveries: all.map(({ delivery }) => delivery),
    seen: all.map((each) => each.seen),
    wholes: all.map(({ whole }) => whole),
    isItem: all.map((each) => each.isItem),
  }
}

/** Then all items but the first would be duplicates or conflicts. */
function warnOfSharedKey({ options }: ReadContext, items: readonly Seen[]): void {
  const ids = new Set(items.map((each) => (each.kind === 'identified' ? each.event.id : each)))
  if (items.length < 2 || ids.size > 1) return
  options.reportOnce(
    'warn',
    { consumer: options.consumer, items: items.length },
    'all items of a message have the same event key: let `eventKey` read the item, not the message around it',
  )
}
