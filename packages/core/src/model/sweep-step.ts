export interface SweepStep {
  readonly deleted: number
  /** Whether the sweep has reached the end of the table. */
  readonly finished: boolean
}
