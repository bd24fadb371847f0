import { skipped } from '@onceward/testing'
import { FRAMEWORKS, type Framework } from '../../packages/http/src/fixtures/servers.ts'
import { FATES, type Fate } from '../crash/cache.ts'
import { createDice, type Dice, seedOfCommit, shuffled } from '../support/dice.ts'
import { LATER_ROWS, type LaterRow, ROWS, type Row } from './rows.ts'

export interface Scene {
  readonly row: Row
  readonly framework: Framework
  readonly fate: Fate
}

/** A webhook whose handler runs later. It takes no lease, so Redis has no part in it. */
export type LaterScene = Pick<Scene, 'framework'> & { readonly row: LaterRow }

/** Scenes of one commit, of requests and of webhooks that run later. `npm run nightly` plays all. */
const SAMPLE = 5
const SAMPLE_OF_LATER = 2

/** All scenes with ONCEWARD_CRASH_MATRIX=all, otherwise some; the seed turns with the commit. */
export function scenesToPlay(): readonly Scene[] {
  return isWhole() ? everyScene() : sampleOf(createDice(seedOfCommit()))
}

export function laterScenesToPlay(): readonly LaterScene[] {
  const dice = createDice(seedOfCommit())
  const all = LATER_ROWS.flatMap((row) => FRAMEWORKS.map((framework) => ({ row, framework })))
  return isWhole() ? all : shuffled(all, dice).slice(0, SAMPLE_OF_LATER)
}

const isWhole = (): boolean => process.env['ONCEWARD_CRASH_MATRIX'] === 'all'

export function everyScene(): readonly Scene[] {
  const fates = skipped('redis') ? (['absent'] as const) : FATES
  return ROWS.flatMap((row) =>
    fates
      .filter((fate) => row.leased !== true || fate !== 'absent')
      .flatMap((fate) => FRAMEWORKS.map((framework): Scene => ({ row, framework, fate }))),
  )
}

/** Of different rows, and every framework and state of Redis about equally often. */
export function sampleOf(dice: Dice): readonly Scene[] {
  const chosen: Scene[] = []
  const commonness = (scene: Scene): number =>
    chosen.filter(({ fate }) => fate === scene.fate).length +
    chosen.filter(({ framework }) => framework === scene.framework).length
  for (const row of shuffled(ROWS, dice)) {
    if (chosen.length === SAMPLE) break
    const candidates = everyScene().filter((scene) => scene.row === row)
    const least = Math.min(...candidates.map(commonness))
    const scene = dice.pick(candidates.filter((each) => commonness(each) === least))
    if (scene !== undefined) chosen.push(scene)
  }
  return chosen
}

export const nameOf = ({ fate, framework, row }: Scene): string =>
  `${row.edge === 'request' ? '' : 'a webhook: '}${row.title}, on ${framework}, Redis ${fate}`
