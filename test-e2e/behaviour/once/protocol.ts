export interface CallerConfig {
  readonly url: string
  readonly calls: number
  /** Its handler never returns. */
  readonly isStuck: boolean
}

/** What a process tells the test. */
export type Told =
  | { readonly kind: 'running' }
  | { readonly kind: 'waiting' }
  | { readonly kind: 'answer'; readonly answer: { readonly report: number } }
