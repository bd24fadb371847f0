import { CLIENTS, DIFFERS, EXPERIMENTAL } from '../packages/kafka/src/fixtures/clients.ts'
import { table } from './docs-table.ts'

/** A test of the suite that each client passes. */
const TITLE = /^ {2}test\(\s*'([^']+)'/gm

/** The tests of `packages/kafka/src/clients/clients.int.test.ts` that some clients do not pass, and why. */
export function kafkaClientTable(suite: string): string {
  const titles = [...suite.matchAll(TITLE)].map(([, title = '']) => title)
  const unknown = Object.keys(DIFFERS).filter((title) => !titles.includes(title))
  if (unknown.length > 0) throw new Error(`No test of the clients is called ${unknown.join(', ')}.`)
  const names = Object.keys(CLIENTS)
  return table(
    ['', ...names.map(titleOf)],
    Object.keys(DIFFERS).map((title) => [
      title,
      ...names.map((name) => DIFFERS[title]?.[name] ?? '✓'),
    ]),
  )
}

const titleOf = (name: string): string =>
  name.startsWith(EXPERIMENTAL.client) ? `${name} (experimental)` : name

/** That no commit is tested with one of the clients. */
export const experimentalClient = (): string => EXPERIMENTAL.text
