import type { ServiceName } from '@onceward/testing/servers'
import type { Grid } from './grid.ts'
import type { Scenario } from './scenario.ts'
import type { Servers } from './servers.ts'

/** A grid with a way to make its cells. */
export interface Playable {
  readonly grid: Grid<unknown>
  /** The servers beside Postgres. */
  readonly needs: readonly ServiceName[]
  open(servers: Servers, settings: never): Promise<Scenario>
}

/** Forgets the type of the settings: each grid has its own. */
export const playable = <Settings>(
  grid: Grid<Settings>,
  needs: readonly ServiceName[],
  open: (servers: Servers, settings: Settings) => Promise<Scenario>,
): Playable => ({ grid, needs, open }) as unknown as Playable
