import { execFileSync } from 'node:child_process'

/** Random numbers that a seed repeats. */
export interface Dice {
  readonly seed: number
  /** Uniform in [0, 1). */
  next(): number
  /** A random one of the items. */
  pick<Item>(items: readonly Item[]): Item | undefined
}

/**
 * The same numbers in every run, so that a red test is due to a change and not to chance. The long commands
 * (`npm run crash`, `simulate`, `soak`) use new seeds. ONCEWARD_E2E_SEED sets the seed; `clock` takes a random one.
 *
 * @param seed - Without ONCEWARD_E2E_SEED.
 */
export function createDice(seed = 1): Dice {
  const wanted = process.env['ONCEWARD_E2E_SEED'] ?? String(seed)
  const chosen = wanted === 'clock' ? Date.now() % 1_000_000 : Number(wanted)
  if (!Number.isSafeInteger(chosen))
    throw new Error('ONCEWARD_E2E_SEED is a whole number or "clock"')
  console.log(`ONCEWARD_E2E_SEED=${chosen}`)
  return diceOf(chosen)
}

/** A seed that turns with the commit: the same for everybody who tests it. 1 outside a repository. */
export function seedOfCommit(): number {
  try {
    const options = { cwd: import.meta.dirname, encoding: 'utf8' } as const
    return seedOf(execFileSync('git', ['rev-parse', 'HEAD'], options))
  } catch {
    return 1
  }
}

/** The first 28 bits of a commit. */
export const seedOf = (commit: string): number => Number.parseInt(commit.slice(0, 7), 16)

export function diceOf(seed: number): Dice {
  let state = seed
  // mulberry32
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  return { seed, next, pick: (items) => items[Math.floor(next() * items.length)] }
}

/** The items in an order that the dice choose. */
export function shuffled<Item>(items: readonly Item[], dice: Dice): readonly Item[] {
  return items
    .map((item) => ({ item, at: dice.next() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item)
}
