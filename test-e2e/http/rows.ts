import type { Point } from './protocol.ts'

/** How the first server dies: by itself at a point, or killed while its COMMIT is on the wire. */
export type Death =
  | { readonly kind: 'at'; readonly point: Point }
  | { readonly kind: 'at-commit'; readonly arrives: boolean }

/** A row of the failure table of design.md §11, for requests. */
export interface Row {
  readonly title: string
  readonly death: Death
  /** The crash point exists only with leases beside the inbox. */
  readonly leased?: true | undefined
  /** The handler throws an answer that is stored, and its writes are rolled back. */
  readonly declined?: true | undefined
  /** What a retry meets: the stored answer, or a free key. */
  readonly retry: 'replayed' | 'runs'
}

const at = (point: Point): Death => ({ kind: 'at', point })

/** The comment of each row names a plausible wrong change that the row detects. */
export const ROWS: readonly Row[] = [
  // Red when a key is marked as used on receipt.
  { title: 'before claim', death: at('before-claim'), retry: 'runs' },
  // Red when an expired lease cannot be taken over.
  { title: 'after claim, before BEGIN', death: at('before-begin'), leased: true, retry: 'runs' },
  // Red when the key is committed before the handler runs.
  { title: 'inside the transaction', death: at('in-transaction'), retry: 'runs' },
  // Red when a problem to be stored is stored before its run is rolled back, or its run is committed.
  {
    title: 'after the rollback of a stored problem, before its commit',
    death: at('between-runs'),
    declined: true,
    retry: 'runs',
  },
  // Red when the answer is written after the business transaction.
  {
    title: 'COMMIT sent, reply lost, and it arrived',
    death: { kind: 'at-commit', arrives: true },
    retry: 'replayed',
  },
  {
    title: 'COMMIT sent, reply lost, and it did not arrive',
    death: { kind: 'at-commit', arrives: false },
    retry: 'runs',
  },
  // Red when a takeover runs the handler without reading the row.
  { title: 'after COMMIT', death: at('after-commit'), retry: 'replayed' },
  {
    title: 'after COMMIT, before lease `done`',
    death: at('before-complete'),
    leased: true,
    retry: 'replayed',
  },
  // Red when the answer is kept in the process alone.
  { title: 'before the answer', death: at('before-reply'), retry: 'replayed' },
  {
    title: 'before the answer of a stored problem',
    death: at('before-reply'),
    declined: true,
    retry: 'replayed',
  },
  { title: 'in the middle of the answer', death: at('in-reply'), retry: 'replayed' },
]
