import type { TestProject } from 'vitest/node'
import { postgres } from '../servers/postgres/postgres.ts'
import './provided.ts'

/** Starts the one Postgres that all test files of a project share. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await postgres()
  project.provide('postgresUrl', server.connection.url)
  return () => server.stop()
}
