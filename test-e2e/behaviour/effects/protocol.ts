/** Where a worker ends itself with SIGKILL. */
export type Death =
  /** The claim is taken, the payment API was not called. */
  | 'before-call'
  /** The payment API has answered, the lease store was not told. */
  | 'before-complete'

export interface PayerConfig {
  readonly store:
    | { readonly kind: 'redis'; readonly port: number }
    | { readonly kind: 'postgres'; readonly url: string }
    | { readonly kind: 'dynamodb'; readonly endpoint: string; readonly table: string }
  readonly paymentsUrl: string
  readonly onTakeover: 'retry' | 'dead-letter' | 'ask-payments'
  readonly dies?: Death | undefined
}

export interface Order {
  readonly orderId: string
  readonly cents: number
}
