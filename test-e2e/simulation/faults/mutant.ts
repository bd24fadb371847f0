/** A historical bug, put back into the core: texts of its sources and what stood there in systems that had it. */
export interface Mutant {
  readonly name: string
  /** Of docs/traps.md. */
  readonly trap: string
  readonly what: string
  readonly edits: readonly {
    /** In packages/core/src. */
    readonly file: string
    readonly find: string
    readonly replace: string
  }[]
  /** Found among the schedules of callers, and not among those of brokers. */
  readonly isOfCallers?: boolean | undefined
  /** Found too late for every run of the tests. */
  readonly isSlow?: boolean | undefined
}
