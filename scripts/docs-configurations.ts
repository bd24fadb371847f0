import type { Choice, Grid } from '../test-e2e/fuzz/configurations/grid.ts'
import { KAFKA } from '../test-e2e/fuzz/configurations/kafka-grid.ts'
import { POSTGRES } from '../test-e2e/fuzz/configurations/postgres-grid.ts'
import { RABBITMQ } from '../test-e2e/fuzz/configurations/rabbitmq-grid.ts'
import { SQS } from '../test-e2e/fuzz/configurations/sqs-grid.ts'
import { table } from './docs-table.ts'

const TABLES: Readonly<Record<string, string>> = {
  postgres: tableOf(POSTGRES),
  rabbitmq: tableOf(RABBITMQ),
  kafka: tableOf(KAFKA),
  sqs: tableOf(SQS),
}

/** One row for each value of each dimension of a grid, and what onceward does under it. */
export function configurationTable(grid: string): string {
  const found = TABLES[grid]
  if (found === undefined) throw new Error(`There is no grid called "${grid}".`)
  return found
}

function tableOf<Settings>({ dimensions }: Grid<Settings>): string {
  const rows = dimensions.flatMap(({ name, choices }) =>
    choices.map((choice, at) => [at === 0 ? name : '', choice.name, verdictOf(choice)]),
  )
  return table(['Setting', 'Value', 'onceward'], rows)
}

function verdictOf<Settings>(choice: Choice<Settings>): string {
  const { refused, refusedIf, waits, warned } = choice
  if (refused !== undefined) return `refuses to start: “${refused}”`
  if (refusedIf !== undefined) {
    return `works; refuses to start ${refusedIf.says}: “${refusedIf.names}”`
  }
  if (waits !== undefined) return `waits, and \`health().reason\` says “${waits}”`
  return warned === undefined ? 'works' : `works, and warns: “${warned}”`
}
