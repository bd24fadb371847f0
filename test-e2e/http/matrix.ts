import { skipped } from '@onceward/testing'
import { FRAMEWORKS, type Framework } from '../../packages/http/src/fixtures/servers.ts'
import { FATES, type Fate } from '../crash/cache.ts'
import { createDice, type Dice, seedOfCommit, shuffled } from '../support/dice.ts'
import { LATER_ROWS, type LaterRow, ROWS, type Row } from './rows.ts'

export interface Scenario {
  readonly row: Row
  readonly framework: Framework
  readonly fate: Fate
}

/** A webhook whose handler runs later. It takes no lease, so Redis has no part in it. */
export type LaterScenario = Pick<Scenario, 'framework'> & { readonly row: LaterRow }

/** Scenarios of one commit, of requests and of webhooks that run later. `npm run nightly` plays all. */
const SAMPLE = 5
const SAMPLE_OF_LATER = 2

/** All scenarios with ONCEWARD_CRASH_MATRIX=all, otherwise some; the seed turns with the commit. */
export function scenariosToPlay(): readonly Scenario[] {
  return isWhole() ? everyScenario() : sampleOf(createDice(seedOfCommit()))
}

export function laterScenariosToPlay(): readonly LaterScenario[] {
  const dice = createDice(seedOfCommit())
  const all = LATER_ROWS.flatMap((row) => FRAMEWORKS.map((framework) => ({ row, framework })))
  return isWhole() ? all : shuffled(all, dice).slice(0, SAMPLE_OF_LATER)
}

const isWhole = (): boolean => process.env['ONCEWARD_CRASH_MATRIX'] === 'all'

export function everyScenario(): readonly Scenario[] {
  const fates = skipped('redis') ? (['absent'] as const) : FATES
  return ROWS.flatMap((row) =>
    fates
      .filter((fate) => row.leased !== true || fate !== 'absent')
      .flatMap((fate) => FRAMEWORKS.map((framework): Scenario => ({ row, framework, fate }))),
  )
}

/** Of different rows, and every framework and state of Redis about equally often. */
export function sampleOf(dice: Dice): readonly Scenario[] {
  const chosen: Scenario[] = []
  const commonness = (scenario: Scenario): number =>
    chosen.filter(({ fate }) => fate === scenario.fate).length +
    chosen.filter(({ framework }) => framework === scenario.framework).length
  for (const row of shuffled(ROWS, dice)) {
    if (chosen.length === SAMPLE) break
    const candidates = everyScenario().filter((scenario) => scenario.row === row)
    const least = Math.min(...candidates.map(commonness))
    const scenario = dice.pick(candidates.filter((each) => commonness(each) === least))
    if (scenario !== undefined) chosen.push(scenario)
  }
  return chosen
}

export const nameOf = ({ fate, framework, row }: Scenario): string =>
  `${row.edge === 'request' ? '' : 'a webhook: '}${row.title}, on ${framework}, Redis ${fate}`
