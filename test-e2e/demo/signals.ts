/** What a worker reports to its parent, so that the parent can kill it at that very point. */
export type Signal =
  | { readonly kind: 'received'; readonly messages: number }
  /** The charge is written, the balance is not. Nothing is committed. */
  | { readonly kind: 'in-transaction' }
  /** With `--outbox`. The transaction is committed, and the accounting does not know of it. */
  | { readonly kind: 'before-announcement' }
  /** The transaction is committed. The broker has no acknowledgement yet. */
  | { readonly kind: 'before-ack' }

export function tell(signal: Signal): void {
  process.send?.(signal)
}
