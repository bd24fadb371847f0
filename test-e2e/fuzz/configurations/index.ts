import { installedPostgres } from '@onceward/testing/servers'
import { BROKER_NAMES, BROKERS } from '../../brokers/index.ts'
import type { Fuzz, OpenFuzz } from '../fuzz.ts'
import { type Cell, cellsOfOne, cellsOfPairs, nameOf, randomCell } from './grid.ts'
import { sentenceOf } from './judge.ts'
import { type Playable, playable } from './playable.ts'
import { POSTGRES } from './postgres-grid.ts'
import { OLD_VERSION, openPostgres } from './postgres-scenario.ts'
import { REDIS, REDIS_ALONE } from './redis-grid.ts'
import { openRedis } from './redis-scenario.ts'
import { Servers } from './servers.ts'
import { tell } from './story.ts'

/** Longest wait for one step of a cell, ms. */
const STEP_MS = 90_000

export const GRIDS: readonly Playable[] = [
  playable(POSTGRES, ['pgbouncer'], openPostgres),
  playable(REDIS, ['redis'], openRedis),
  playable(REDIS_ALONE, ['redis'], openRedis),
  ...(await Promise.all(BROKER_NAMES.map((name) => BROKERS[name].configurations()))),
]

/** Whether this machine has all servers of the cell. An older PostgreSQL comes from the packages of the system. */
export async function isPlayable({ settings }: Cell): Promise<boolean> {
  if (Reflect.get(Object(settings), 'server') !== 'postgres-15') return true
  return (await installedPostgres(OLD_VERSION)) !== undefined
}

/** The cells that the long form plays first: each value alone, then every two values together. */
export function listedCells(): readonly Cell[] {
  return GRIDS.flatMap(({ grid }) => [...cellsOfOne(grid), ...cellsOfPairs(grid)])
}

/** The cell of a number: those of the list first, then any combinations. */
export function cellOf(seed: number): Cell {
  const listed = listedCells()
  const cell = listed[seed]
  if (cell !== undefined) return cell
  const beyond = seed - listed.length
  const { grid } = GRIDS[beyond % GRIDS.length] as Playable
  return randomCell(grid, seed)
}

/** Makes the configuration, tells the story in it and judges what happened. */
export async function playCell(servers: Servers, cell: Cell): Promise<string | undefined> {
  const { open } = GRIDS.find(({ grid }) => grid.name === cell.grid) as Playable
  const scenario = await open(servers, cell.settings as never)
  try {
    const expectsNothing = cell.choices.some(({ waits }) => waits !== undefined)
    return sentenceOf(cell, await tell(scenario, { stepMs: STEP_MS, expectsNothing }))
  } finally {
    await scenario.close()
  }
}

export const configurations: Fuzz = {
  open: async (): Promise<OpenFuzz> => {
    const servers = new Servers()
    const tally: Record<string, number> = {}
    return {
      play: async (seed) => {
        const cell = cellOf(seed)
        if (!(await isPlayable(cell))) return undefined
        tally[cell.grid] = (tally[cell.grid] ?? 0) + 1
        return playCell(servers, cell).catch(
          (error: unknown) => `${nameOf(cell)}\n${String(error)}`,
        )
      },
      tally: () => tally,
      close: () => servers[Symbol.asyncDispose](),
    }
  },
}
