import type { Delivery } from '../model/delivery.ts'

/** A received item that came as a delivery. */
export interface Delivered {
  readonly delivery: Delivery
}

/**
 * Groups deliveries by ordering key, in order of arrival. A delivery without a key is a group of its own.
 *
 * A group goes into one call of the guard: in another call, a later delivery could overtake an earlier one.
 */
export function byOrderingKey<Each extends Delivered>(
  received: readonly Each[],
): readonly (readonly Each[])[] {
  const groups: Each[][] = []
  const byKey = new Map<string | undefined, Each[]>()
  for (const each of received) {
    const { orderingKey } = each.delivery
    const members = byKey.get(orderingKey)
    if (members === undefined) {
      const group = [each]
      groups.push(group)
      if (orderingKey !== undefined) byKey.set(orderingKey, group)
    } else members.push(each)
  }
  return groups
}

/** Fills batches of at most `size` deliveries with whole groups; only a group that is larger makes a larger batch. */
export function toBatches<Each extends Delivered>(
  groups: readonly (readonly Each[])[],
  size: number,
): readonly (readonly Each[])[] {
  const filled: Each[][] = []
  for (const group of groups) {
    const last = filled.at(-1)
    if (last !== undefined && last.length + group.length <= size) last.push(...group)
    else filled.push([...group])
  }
  return filled
}

/** The slots that one call of the guard occupies: one per batch, or one per group whose deliveries run in order. */
export class SharedSlots<Each> {
  /** Deliveries that share their slot with others. */
  readonly #shared = new Map<Each, { left: number }>()
  readonly busy: number

  constructor(sharing: readonly (readonly Each[])[]) {
    this.busy = sharing.length
    for (const members of sharing) {
      if (members.length === 1) continue
      const slot = { left: members.length }
      for (const each of members) this.#shared.set(each, slot)
    }
  }

  /** Notes that the settlement of a delivery is known, once for each. Answers whether its slot is free now. */
  known(each: Each): boolean {
    const slot = this.#shared.get(each)
    if (slot === undefined) return true
    slot.left -= 1
    return slot.left === 0
  }
}
