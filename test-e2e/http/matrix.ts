import { skipped } from '@onceward/testing'
import { FRAMEWORKS, type Framework } from '../../packages/http/src/fixtures/servers.ts'
import { FATES, type Fate } from '../crash/cache.ts'
import { createDice, type Dice, seedOfCommit } from '../support/dice.ts'
import { ROWS, type Row } from './rows.ts'

export interface Scene {
  readonly row: Row
  readonly framework: Framework
  readonly fate: Fate
}

/** All scenes with ONCEWARD_CRASH_MATRIX=all, otherwise each row once; the seed turns with the commit. */
export function scenesToPlay(): readonly Scene[] {
  if (process.env['ONCEWARD_CRASH_MATRIX'] === 'all') return everyScene()
  return sampleOf(createDice(seedOfCommit()))
}

export function everyScene(): readonly Scene[] {
  const fates = skipped('redis') ? (['absent'] as const) : FATES
  return ROWS.flatMap((row) =>
    fates
      .filter((fate) => row.leased !== true || fate !== 'absent')
      .flatMap((fate) => FRAMEWORKS.map((framework): Scene => ({ row, framework, fate }))),
  )
}

/** Each row once, and every framework and state of Redis about equally often. */
export function sampleOf(dice: Dice): readonly Scene[] {
  const chosen: Scene[] = []
  const commonness = (scene: Scene): number =>
    chosen.filter(({ fate }) => fate === scene.fate).length +
    chosen.filter(({ framework }) => framework === scene.framework).length
  for (const row of ROWS) {
    const candidates = everyScene().filter((scene) => scene.row === row)
    const least = Math.min(...candidates.map(commonness))
    const scene = dice.pick(candidates.filter((each) => commonness(each) === least))
    if (scene !== undefined) chosen.push(scene)
  }
  return chosen
}

export const nameOf = ({ fate, framework, row }: Scene): string =>
  `${row.title}, on ${framework}, Redis ${fate}`
