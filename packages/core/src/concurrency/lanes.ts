/** Groups items by lane, in order. An item without a lane gets a lane of its own. */
export function toLanes<Item>(
  items: readonly Item[],
  laneOf: (item: Item) => string | undefined,
): readonly (readonly Item[])[] {
  const lanes: Item[][] = []
  const byName = new Map<string, Item[]>()
  for (const item of items) {
    const name = laneOf(item)
    const known = name === undefined ? undefined : byName.get(name)
    if (known !== undefined) {
      known.push(item)
      continue
    }
    const lane = [item]
    lanes.push(lane)
    if (name !== undefined) byName.set(name, lane)
  }
  return lanes
}

/** Splits items into batches of at most `size`, in order. */
export function chunks<Item>(items: readonly Item[], size: number): readonly (readonly Item[])[] {
  const batches: (readonly Item[])[] = []
  for (let at = 0; at < items.length; at += size) batches.push(items.slice(at, at + size))
  return batches
}
