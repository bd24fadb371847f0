import type { Database } from './database.ts'
import type { Finding } from './finding.ts'
import { readServer, serverFindings } from './server-findings.ts'
import { readStatus } from './status.ts'
import { type Horizons, tableFindings } from './table-findings.ts'
import { readTables, refusal } from './tables.ts'

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
    return [...server, ...newer, ...tableFindings(await readStatus(query, database), horizons)]
  })
}
