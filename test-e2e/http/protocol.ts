import type { Framework } from '../../packages/http/src/fixtures/servers.ts'

/** Where a server kills itself, for one key. */
export type Point =
  | 'before-claim'
  | 'before-park'
  | 'after-park'
  | 'before-count'
  | 'before-begin'
  | 'in-transaction'
  | 'between-runs'
  | 'after-commit'
  | 'before-complete'
  | 'before-reply'
  | 'in-reply'

/** What the server guards: requests of clients, or webhooks whose handler runs at once or later. */
export type Edge = 'request' | 'webhook' | 'webhook later'

/** What a server process is told. */
export interface ServerConfig {
  readonly edge: Edge
  readonly framework: Framework
  readonly databaseUrl: string
  readonly redisPort?: number | undefined
  readonly redisBudgetMs?: number | undefined
  readonly crash?: { readonly at: Point; readonly key: string } | undefined
}

/** What a client sends. The server declines the charge with an `HttpProblem` that is stored. */
export interface Charge {
  readonly cents: number
  readonly declined?: boolean | undefined
}
