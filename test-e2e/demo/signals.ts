/** What a worker tells the parent: where its work stands, so that the parent can kill it just there. */
export type Signal =
  | { readonly kind: 'received'; readonly messages: number }
  /** The charge is written, the balance is not, nothing is committed. */
  | { readonly kind: 'in-transaction' }
  /** Everything is committed, the broker does not know yet. */
  | { readonly kind: 'before-ack' }

export function tell(signal: Signal): void {
  process.send?.(signal)
}
