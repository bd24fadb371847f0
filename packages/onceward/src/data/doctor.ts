import { isRemoved } from '@onceward/postgres/operator'
import type { Database } from './database.ts'
import type { Finding } from './finding.ts'
import { grantFindings, mayReadStatus } from './grant-findings.ts'
import { readServer, serverFindings } from './server-findings.ts'
import { readStatus } from './status.ts'
import { type Horizons, tableFindings } from './table-findings.ts'
import { readTables, refusal } from './tables.ts'
import { unfitFindings } from './unfit-findings.ts'

/** Findings of the server and, if they can be read, of the tables. */
export function databaseFindings(
  database: Database,
  horizons: Horizons = new Map(),
): Promise<readonly Finding[]> {
  return database.read(async (query) => {
    const tables = await readTables(query, database)
    const server = serverFindings(await readServer(query), Date.now())
    const refused = refusal(tables, database)
    if (refused !== undefined) {
      const [finding = refused, ...rest] = refused.split(/(?<=[.:]) (?=Run|Update|the tables can)/)
      const remedy = rest.join(' ') || 'Run `npx onceward migrate`.'
      return [...server, { severity: 'error', about: 'tables', finding, remedy }]
    }
    const newer: readonly Finding[] =
      tables.kind === 'newer'
        ? [
            {
              ...{ severity: 'warning', about: 'tables' },
              finding: `The tables have version ${tables.version}, newer than this command.`,
              remedy: 'Finish the deployment, and update the package `onceward`.',
            },
          ]
        : []
    const grants = await grantFindings(query, database)
    const found = [...server, ...newer, ...(await unfitFindings(query, database)), ...grants]
    if (!(await mayReadStatus(query, database))) return found
    const status = await readStatus(query, database)
    return [...found, ...tableFindings(status, horizons, database.schema)]
  })
}

/** The dedup window of each consumer, in milliseconds. Empty for tables that this release cannot use. */
export function readWindows(database: Database): Promise<ReadonlyMap<string, number>> {
  return database.read(async (query) => {
    if (refusal(await readTables(query, database), database) !== undefined) return new Map()
    const consumers = await query<{ readonly name: string; readonly windowMs: number }>(
      `select name, dedup_window_ms as "windowMs" from ${database.quoted}.consumers c where not ${isRemoved('c')} order by name`,
    )
    return new Map(consumers.map(({ name, windowMs }) => [name, windowMs]))
  })
}
