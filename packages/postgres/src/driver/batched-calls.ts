type Batched<Item, Answer> = (items: readonly Item[]) => Promise<readonly Answer[]>

interface Caller<Item, Answer> extends PromiseWithResolvers<readonly Answer[]> {
  readonly items: readonly Item[]
}

/** Limits of {@link batchedCalls}. */
export interface Sharing {
  /** Most calls in flight at the same time. Later callers share the next call. */
  readonly width: number
  /** Most items of a shared call. The items of one caller are never split. */
  readonly most: number
}

/**
 * Batches calls while `width` calls are in flight, as commits share a flush. Many callers then need few connections.
 * With at most `most` waiting items a caller waits for at most two calls. A failed call fails for all callers in it.
 *
 * @param call - Returns one answer for each item, in order.
 */
export function batchedCalls<Item, Answer>(
  call: Batched<Item, Answer>,
  { width, most }: Sharing,
): Batched<Item, Answer> {
  const waiting: Caller<Item, Answer>[] = []
  let underWay = 0

  async function serve(): Promise<void> {
    underWay += 1
    while (waiting.length > 0) await answer(call, waiting.splice(0, fitting(waiting, most)))
    underWay -= 1
  }

  return (items) => {
    const caller = { ...Promise.withResolvers<readonly Answer[]>(), items }
    waiting.push(caller)
    if (underWay < width) void serve()
    return caller.promise
  }
}

/** How many of the first callers fit into one call: at least one. */
function fitting(waiting: readonly { readonly items: readonly unknown[] }[], most: number): number {
  let sum = 0
  const tooMany = waiting.findIndex(({ items }) => {
    sum += items.length
    return sum > most
  })
  return tooMany < 0 ? waiting.length : Math.max(1, tooMany)
}

async function answer<Item, Answer>(
  call: Batched<Item, Answer>,
  callers: readonly Caller<Item, Answer>[],
): Promise<void> {
  try {
    const answers = await call(callers.flatMap(({ items }) => items))
    let from = 0
    for (const { items, resolve } of callers) {
      resolve(answers.slice(from, from + items.length))
      from += items.length
    }
  } catch (error) {
    for (const { reject } of callers) reject(error)
  }
}
