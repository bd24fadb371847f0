/** One form of fuzzing: draws a case from a seed, plays it against real servers and judges what happened. */
export interface Fuzz {
  /** Starts what all cases share. */
  open(): Promise<OpenFuzz>
}

export interface OpenFuzz {
  /**
   * Plays the case of a seed. The same seed is the same case.
   *
   * @returns What was broken, as a sentence, with the smallest case that was found to break it. Nothing otherwise.
   */
  play(seed: number): Promise<string | undefined>
  /** What the cases played so far were made of, by name. It shows that nothing was left out. */
  tally(): Readonly<Record<string, number>>
  /** Ends what {@link Fuzz.open} started. */
  close(): Promise<void>
}
