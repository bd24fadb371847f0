import { ConfigurationError } from '@onceward/core'

/** Servers that speak the protocol of PostgreSQL and lack what the guard relies on. */
const UNFIT: readonly {
  readonly name: string
  /** What stands in `version()`. */
  readonly mark: string
  readonly lacks: string
}[] = [
  {
    name: 'CockroachDB',
    mark: 'CockroachDB',
    lacks: 'it has no advisory locks, no `xmin` and no transition tables',
  },
  {
    name: 'YugabyteDB',
    mark: '-YB-',
    lacks: 'its DDL is not transactional, so a migration that fails leaves half of its tables',
  },
  {
    name: 'Aurora DSQL',
    mark: 'DSQL',
    lacks: 'it has no triggers, no advisory locks and no row locks that wait',
  },
]

/**
 * The guard would seem to work on some of them until two processes meet.
 *
 * @param version - What `select version()` answers.
 * @throws {@link ConfigurationError} that names the server and says why.
 */
export function refuseUnfitServer(version: string): void {
  const unfit = UNFIT.find(({ mark }) => version.includes(mark))
  if (unfit === undefined) return
  throw new ConfigurationError(
    `The server is ${unfit.name}, on which onceward does not keep its promises: ${unfit.lacks}. Use PostgreSQL, or a service that runs PostgreSQL itself, such as Amazon RDS, Aurora PostgreSQL, Cloud SQL or Neon (docs/versions.md).`,
  )
}
