export interface CallerConfig {
  readonly url: string
  readonly calls: number
  /** Its handler never returns. */
  readonly isStuck: boolean
}

/** Of a service with a cron job that fires every three seconds. */
export interface TickingConfig {
  readonly url: string
  /** The process that removes this directory in a run is stuck in it. */
  readonly directory: string
}

/** What a process tells the test. */
export type Told =
  | { readonly kind: 'running' }
  | { readonly kind: 'waiting' }
  | { readonly kind: 'answer'; readonly answer: { readonly report: number } }
  | { readonly kind: 'fired' | 'stuck'; readonly tick: string }
