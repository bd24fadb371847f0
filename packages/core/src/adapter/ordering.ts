import type { Delivery } from '../model/delivery.ts'

/** Something in hand that came as a delivery. */
export interface Delivered {
  readonly delivery: Delivery
}

/**
 * Deliveries of one ordering key stay together: a follower in another call of the guard could overtake its head.
 *
 * In order of arrival; a delivery without a key is a bundle of its own.
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

/** At most `size` deliveries each, more only where one bundle alone has more. */
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
