/** How much is measured. */
export interface Scale {
  /** Alternating rounds; a figure is the median of its rounds. */
  readonly rounds: number
  /** Rounds among the rivals, of which there are many. */
  readonly rivalRounds: number
  /** Events per round and contestant. */
  readonly events: number
  /** Events after which heap and tables are weighed. */
  readonly growth: number
  /** Done marks that a Redis is filled with. */
  readonly keys: number
  /** Duplicates of a storm. */
  readonly storm: number
  /** How long the table of `growth` may grow. */
  readonly minutes: number
}
