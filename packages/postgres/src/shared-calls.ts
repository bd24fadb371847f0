type Batched<Item, Answer> = (items: readonly Item[]) => Promise<readonly Answer[]>

interface Caller<Item, Answer> extends PromiseWithResolvers<readonly Answer[]> {
  readonly items: readonly Item[]
}

/**
 * Calls that come while one is under way share the next one, as commits share a flush: a crowd needs one connection,
 * and a caller waits for two calls at most while it is no larger than `most` items. A failed call fails for all who
 * shared it.
 *
 * @param call - Answers an item with an answer, in order.
 * @param most - Items of a shared call; a caller's own are never divided.
 */
export function sharedCalls<Item, Answer>(
  call: Batched<Item, Answer>,
  most: number,
): Batched<Item, Answer> {
  const waiting: Caller<Item, Answer>[] = []
  let isUnderWay = false

  async function serve(): Promise<void> {
    isUnderWay = true
    while (waiting.length > 0) await answer(call, waiting.splice(0, fitting(waiting, most)))
    isUnderWay = false
  }

  return (items) => {
    const caller = { ...Promise.withResolvers<readonly Answer[]>(), items }
    waiting.push(caller)
    if (!isUnderWay) void serve()
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
