import type { OnStop } from '../model/runtime.ts'

/** Groups items by lane, in order. An item without a lane gets a lane of its own. */
export function toLanes<Item>(
  items: readonly Item[],
  laneOf: (item: Item) => string | undefined,
): readonly (readonly Item[])[] {
  const lanes: Item[][] = []
  let byName: Map<string | undefined, Item[]> | undefined
  for (const item of items) {
    const name = laneOf(item)
    const known = byName?.get(name)
    if (known !== undefined) {
      known.push(item)
      continue
    }
    const lane = [item]
    lanes.push(lane)
    if (name === undefined) continue
    byName ??= new Map()
    byName.set(name, lane)
  }
  return lanes
}

/** Splits items into batches of at most `size`, in order. */
export function chunks<Item>(items: readonly Item[], size: number): readonly (readonly Item[])[] {
  const batches: (readonly Item[])[] = []
  for (let at = 0; at < items.length; at += size) batches.push(items.slice(at, at + size))
  return batches
}

/**
 * Runs the items in order, at most `width` at the same time, so that memory for running items depends on `width` alone.
 * After a stop no item waits for its turn: each ends at once, because it finds that it must not start.
 */
export async function inTurns<Item>(
  items: readonly Item[],
  { stop, width }: { readonly width: number; readonly stop: OnStop },
  run: (item: Item) => Promise<unknown>,
): Promise<void> {
  let next = 0
  const work = async (): Promise<void> => {
    while (next < items.length) {
      const item = items[next] as Item
      next += 1
      await run(item)
    }
  }
  const working = Array.from({ length: Math.min(width, items.length) }, work)
  let stopped: Promise<void> | undefined
  const unsubscribe = stop(() => {
    stopped = work()
  })
  await Promise.all(working).finally(unsubscribe)
  await stopped
}

/** Lanes that wait for other processes at the same time. Each has a timer and asks the lease store at most four times. */
export const WAITING_LANES = 1_000
