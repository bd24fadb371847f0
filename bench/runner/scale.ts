/** How much is measured. */
export interface Scale {
  /** Alternating rounds; a figure is the median of its rounds. */
  readonly rounds: number
  /** Rounds of the comparison with rivals; fewer, because there are many of them. */
  readonly rivalRounds: number
  /** Events per round and contestant. */
  readonly events: number
  /** Events that each contestant handles before the rounds that count. */
  readonly warmUp: number
  /** Events after which heap and tables are weighed. */
  readonly growth: number
  /** How many done marks a Redis is filled with. */
  readonly keys: number
  /** Duplicates of a storm. */
  readonly storm: number
  /** How long the table of `growth` may grow. */
  readonly minutes: number
}
