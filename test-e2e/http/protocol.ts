import type { Framework } from '../../packages/http/src/fixtures/servers.ts'

/** Where a server kills itself, for one key. */
export type Point =
  | 'before-claim'
  | 'before-begin'
  | 'in-transaction'
  | 'between-runs'
  | 'after-commit'
  | 'before-complete'
  | 'before-reply'
  | 'in-reply'

/** What a server process is told. */
export interface ServerConfig {
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
