import type { Delivery } from '../model/delivery.ts'

/** Something in hand that came as a delivery. */
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
  const groups = new Map<string | symbol, Each[]>()
  for (const each of received) {
    const group = each.delivery.orderingKey ?? Symbol('no order')
    const members = groups.get(group)
    if (members === undefined) groups.set(group, [each])
    else members.push(each)
  }
  return [...groups.values()]
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
  readonly #open = new Map<Each, { left: number }>()
  readonly busy: number

  constructor(sharing: readonly (readonly Each[])[]) {
    this.busy = sharing.length
    for (const members of sharing) {
      const slot = { left: members.length }
      for (const each of members) this.#open.set(each, slot)
    }
  }

  /** Notes that the settlement of a delivery is known. Answers whether its slot is free now. */
  known(each: Each): boolean {
    const slot = this.#open.get(each)
    if (slot === undefined) return false
    slot.left -= 1
    return slot.left === 0
  }
}
