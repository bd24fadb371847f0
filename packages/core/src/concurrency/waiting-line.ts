/**
 * A queue that items may leave from anywhere. Every operation takes constant time. A `Set` does not: its iteration
 * skips the places of the items that have left, so taking the first of `n` items `n` times takes `n²` steps.
 */
export interface WaitingLine<Item> {
  first(): Item | undefined
  /** Adds the item at the end. The returned function removes it. A second call does nothing. */
  join(item: Item): () => void
}

interface Place<Item> {
  readonly item: Item
  before: Place<Item> | undefined
  after: Place<Item> | undefined
}

export function createWaitingLine<Item>(): WaitingLine<Item> {
  let head: Place<Item> | undefined
  let tail: Place<Item> | undefined
  return {
    first: () => head?.item,
    join: (item) => {
      const place: Place<Item> = { item, before: tail, after: undefined }
      if (tail === undefined) head = place
      else tail.after = place
      tail = place
      let isWaiting = true
      return () => {
        if (!isWaiting) return
        isWaiting = false
        const { after, before } = place
        if (before === undefined) head = after
        else before.after = after
        if (after === undefined) tail = before
        else after.before = before
      }
    },
  }
}
