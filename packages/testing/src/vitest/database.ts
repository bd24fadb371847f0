import { createDatabase, type PostgresServer, postgres } from '../servers/postgres/postgres.ts'
import './provided.ts'

let own: Promise<PostgresServer> | undefined

/**
 * An empty database on the Postgres that all test files share; outside of Vitest on one that lives
 * as long as this process.
 */
export async function database(): Promise<{ readonly url: string }> {
  return { url: await createDatabase(await serverUrl()) }
}

async function serverUrl(): Promise<string> {
  const shared = process.env['VITEST'] ? (await import('vitest')).inject('postgresUrl') : undefined
  if (shared !== undefined) return shared
  own ??= postgres()
  return (await own).connection.url
}
