import { BROKER_NAMES, BROKERS } from '../test-e2e/brokers/index.ts'
import type { Choice, Grid } from '../test-e2e/fuzz/configurations/grid.ts'
import { POSTGRES } from '../test-e2e/fuzz/configurations/postgres-grid.ts'
import { REDIS, REDIS_ALONE } from '../test-e2e/fuzz/configurations/redis-grid.ts'
import { table } from './docs-table.ts'

const WORKS = 'works'
const BROKER_GRIDS = await Promise.all(BROKER_NAMES.map((name) => BROKERS[name].configurations()))
const TABLES = new Map([
  [POSTGRES.name, tableOf(POSTGRES)],
  [REDIS.name, tableOf(REDIS)],
  [REDIS_ALONE.name, tableOf(REDIS_ALONE)],
  ...BROKER_GRIDS.map(({ grid }) => [grid.name, tableOf(grid)] as const),
])

/** One row for each setting of a grid: the values under which everything works, and what happens under the others. */
export function configurationTable(grid: string): string {
  const found = TABLES.get(grid)
  if (found === undefined) throw new Error(`There is no grid called "${grid}".`)
  return found
}

function tableOf<Settings>({ dimensions }: Grid<Settings>): string {
  const rows = dimensions.map(({ name, choices }) => {
    const byVerdict = Map.groupBy(choices, verdictOf)
    const namesOf = (verdict: string): string =>
      (byVerdict.get(verdict) ?? []).map((choice) => choice.name).join(' · ')
    const others = [...byVerdict.keys()].filter((verdict) => verdict !== WORKS)
    const lines = others.map((verdict) => `${namesOf(verdict)}: ${verdict}`)
    return [name, namesOf(WORKS), lines.join('<br>')]
  })
  return table(['Setting', 'Works', 'Something else happens'], rows)
}

function verdictOf<Settings>(choice: Choice<Settings>): string {
  const { refused, refusedIf, waits, bypassed, warned, strays } = choice
  const [, missing] = /^not `(.+)`$/.exec(choice.name) ?? []
  const says = refused === `+${missing}` ? 'and names the right' : `“${refused}”`
  const idle = [
    ...(refused === undefined ? [] : [`refuses to start, ${says}`]),
    ...(waits === undefined ? [] : [`waits, health says “${waits}”`]),
    ...(bypassed === undefined ? [] : [`works without this server, warns “${bypassed}”`]),
  ]
  if (idle.length > 0) return idle.join(', or ')
  const works = warned === undefined ? WORKS : `works, warns “${warned}”`
  if (refusedIf !== undefined) {
    return `${works}, refuses to start ${refusedIf.says}, “${refusedIf.names}”`
  }
  return strays === undefined ? works : `${works}, ${strays.says}`
}
