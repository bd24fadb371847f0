type Batched<Item, Answer> = (items: readonly Item[]) => Promise<readonly Answer[]>

interface Caller<Item, Answer> extends PromiseWithResolvers<readonly Answer[]> {
  readonly items: readonly Item[]
}

/** How calls are shared. */
export interface Sharing {
  /** Calls under way at the same time; who comes then shares the next one. */
  readonly width: number
  /** Items of a shared call; a caller's own are never divided. */
  readonly most: number
}

/**
 * Calls that come while enough are under way share the next one, as commits share a flush: a crowd needs few
 * connections, and while it is no larger than `most` items a caller waits for two calls at most. A failed call fails
 * for all who shared it.
 *
 * @param call - Answers an item with an answer, in order.
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

/** How many of those who came first go together: one at least. */
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
