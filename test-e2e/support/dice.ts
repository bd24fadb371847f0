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
 */
export function createDice(): Dice {
  const wanted = process.env['ONCEWARD_E2E_SEED'] ?? '1'
  const seed = wanted === 'clock' ? Date.now() % 1_000_000 : Number(wanted)
  if (!Number.isSafeInteger(seed)) throw new Error('ONCEWARD_E2E_SEED is a whole number or "clock"')
  console.log(`ONCEWARD_E2E_SEED=${seed}`)
  return diceOf(seed)
}

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
