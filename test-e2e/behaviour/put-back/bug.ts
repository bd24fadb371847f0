/** A historical bug, put back into the product: the SQL, the Postgres inbox, the Lua or the core. */
export interface Bug {
  /** As in docs/traps.md; several bugs of one trap are told apart by `what`. */
  readonly trap: string
  readonly what: string
  readonly edits: readonly {
    /** Path in the repository. */
    readonly file: string
    readonly find: string
    readonly replace: string
  }[]
  /** The test on real servers that finds it. */
  readonly foundBy: { readonly file: string; readonly title: string }
}
