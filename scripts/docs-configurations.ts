import { BROKER_NAMES, BROKERS } from '../test-e2e/brokers/index.ts'
import type { Choice, Grid } from '../test-e2e/fuzz/configurations/grid.ts'
import { POSTGRES } from '../test-e2e/fuzz/configurations/postgres-grid.ts'
import { REDIS, REDIS_ALONE } from '../test-e2e/fuzz/configurations/redis-grid.ts'
import { table } from './docs-table.ts'

const BROKER_GRIDS = await Promise.all(BROKER_NAMES.map((name) => BROKERS[name].configurations()))
const TABLES = new Map([
  [POSTGRES.name, tableOf(POSTGRES)],
  [REDIS.name, tableOf(REDIS)],
  [REDIS_ALONE.name, tableOf(REDIS_ALONE)],
  ...BROKER_GRIDS.map(({ grid }) => [grid.name, tableOf(grid)] as const),
])

/** One row for each value of each dimension of a grid, and what onceward does under it. */
export function configurationTable(grid: string): string {
  const found = TABLES.get(grid)
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
  const { refused, refusedIf, waits, bypassed, warned, strays } = choice
  if (refused !== undefined) return `refuses to start: “${refused}”`
  if (waits !== undefined) return `waits, and \`health().reason\` says “${waits}”`
  if (bypassed !== undefined) return `works without this server, and warns: “${bypassed}”`
  const works = warned === undefined ? 'works' : `works, and warns: “${warned}”`
  if (refusedIf !== undefined) {
    return `${works}; refuses to start ${refusedIf.says}: “${refusedIf.names}”`
  }
  return strays === undefined ? works : `${works}; ${strays.says}`
}
