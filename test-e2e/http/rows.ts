import type { Edge, Point } from './protocol.ts'

/**
 * How the first server dies: by itself at a point, or killed while its COMMIT, or the statement that parks a delivery, is
 * on the wire.
 */
export type Death =
  | { readonly kind: 'at'; readonly point: Point }
  | { readonly kind: 'at-commit'; readonly arrives: boolean }
  | { readonly kind: 'at-park'; readonly arrives: boolean }

/** A row of the failure table of design.md §11, for requests. */
export interface Row {
  readonly edge: Edge
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
const REQUESTS: readonly Omit<Row, 'edge'>[] = [
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

/** A row of a webhook whose handler runs after the answer. */
export interface LaterRow {
  readonly title: string
  readonly death: Death
  /** The provider has its 202 before the process dies, and delivers no more. */
  readonly answered?: true | undefined
}

/** The comment of each row names a plausible wrong change that the row detects. */
export const LATER_ROWS: readonly LaterRow[] = [
  // Red when the answer is sent before the delivery is stored.
  { title: 'before the delivery is parked', death: at('before-park') },
  {
    title: 'the statement that parks it sent, reply lost, and it arrived',
    death: { kind: 'at-park', arrives: true },
  },
  {
    title: 'the statement that parks it sent, reply lost, and it did not arrive',
    death: { kind: 'at-park', arrives: false },
  },
  // Red when the delivery that comes again runs the event, or parks it again.
  { title: 'after the delivery is parked', death: at('after-park') },
  { title: 'before the answer', death: at('before-reply') },
  // Red when the run depends on the process that has answered.
  {
    title: 'after the answer, before its run is counted',
    death: at('before-count'),
    answered: true,
  },
  // Red when an event that runs is not looked for any more.
  { title: 'after its run is counted, before BEGIN', death: at('before-begin'), answered: true },
  { title: 'inside the transaction of its run', death: at('in-transaction'), answered: true },
  {
    title: 'COMMIT of its run sent, reply lost, and it arrived',
    death: { kind: 'at-commit', arrives: true },
    answered: true,
  },
  {
    title: 'COMMIT of its run sent, reply lost, and it did not arrive',
    death: { kind: 'at-commit', arrives: false },
    answered: true,
  },
  // Red when the row that waits is not the row that is done.
  { title: 'after COMMIT of its run', death: at('after-commit'), answered: true },
]

/** Requests, and webhooks whose handler runs before the answer. A provider has no use for a problem that is stored. */
export const ROWS: readonly Row[] = [
  ...REQUESTS.map((row): Row => ({ ...row, edge: 'request' })),
  ...REQUESTS.filter(({ declined }) => declined !== true).map((row): Row => {
    return { ...row, edge: 'webhook' }
  }),
]
