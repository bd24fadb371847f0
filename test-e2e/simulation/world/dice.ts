/** Chance that is the same for the same seed, on every machine. */
export interface Dice {
  /** Uniform in [0, 1). */
  next(): number
  /** An integer from 0 to `below` − 1. */
  below(below: number): number
  /** An integer from `from` to `to`, both included. */
  from(from: number, to: number): number
  chance(probability: number): boolean
  pick<Item>(items: readonly [Item, ...Item[]]): Item
  /** Dice of its own for one purpose: what is thrown there moves nothing here. */
  apart(purpose: string): Dice
}

export function createDice(seed: number): Dice {
  let state = seed | 0
  // mulberry32
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (limit: number): number => Math.floor(next() * limit)
  return {
    next,
    below,
    from: (from, to) => from + below(to - from + 1),
    chance: (probability) => next() < probability,
    pick: (items) => items[below(items.length)] ?? items[0],
    apart: (purpose) => createDice(hashText(purpose, seed)),
  }
}

/** FNV-1a, 32 bits. */
export function hashText(text: string, start = 0x811c9dc5): number {
  let hash = start
  for (let at = 0; at < text.length; at += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  }
  return hash >>> 0
}
