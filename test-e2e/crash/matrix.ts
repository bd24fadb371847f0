import { skipped } from '@onceward/testing'
import { BROKERS, type BrokerName } from '../brokers/index.ts'
import { createDice, type Dice, seedOfCommit, shuffled } from '../support/dice.ts'
import { FATES, type Fate } from './cache.ts'
import { ROWS, type Row, wordOf } from './rows.ts'

export interface Scenario {
  readonly broker: BrokerName
  readonly row: Row
  readonly fate: Fate
  readonly transaction: 'each' | 'batch'
  readonly to: 'the restarted process' | 'another process'
}

/**
 * The scenarios of a broker: all of them with ONCEWARD_CRASH_MATRIX=all, otherwise some, chosen by the seed. The seed turns
 * with the commit, so that in time every scenario is played. It is printed, and ONCEWARD_E2E_SEED repeats it.
 */
export function scenariosOf(broker: BrokerName): readonly Scenario[] {
  if (process.env['ONCEWARD_CRASH_MATRIX'] === 'all') return everyScenario(broker)
  return sampleOf(broker, createDice(seedOfCommit()))
}

/** Scenarios of one commit and broker. `npm run nightly` plays all. */
const SAMPLE = 5

/** Of different rows, with the values of every column about equally often. */
export function sampleOf(broker: BrokerName, dice: Dice): readonly Scenario[] {
  return sample(everyScenario(broker), dice)
}

export function everyScenario(broker: BrokerName): readonly Scenario[] {
  const fates = skipped('redis') ? (['absent'] as const) : FATES
  return ROWS.filter((row) => hasWord(broker, row)).flatMap((row) =>
    fates
      .filter((fate) => row.leased !== true || fate !== 'absent')
      .flatMap((fate) =>
        (['each', 'batch'] as const).flatMap((transaction) =>
          (['the restarted process', 'another process'] as const).map(
            (to): Scenario => ({ broker, row, fate, transaction, to }),
          ),
        ),
      ),
  )
}

/** A row whose crash point is a word on the wire needs an adapter that says this word. */
function hasWord(broker: BrokerName, row: Row): boolean {
  const word = wordOf(row)
  return word === undefined || BROKERS[broker].words[word] !== undefined
}

function sample(scenarios: readonly Scenario[], dice: Dice): readonly Scenario[] {
  const chosen: Scenario[] = []
  const commonness = (scenario: Scenario): number =>
    chosen.filter(({ fate }) => fate === scenario.fate).length * 2 +
    chosen.filter(({ transaction }) => transaction === scenario.transaction).length +
    chosen.filter(({ to }) => to === scenario.to).length
  for (const row of shuffled(ROWS, dice)) {
    if (chosen.length === SAMPLE) break
    const candidates = scenarios.filter((scenario) => scenario.row === row)
    const least = Math.min(...candidates.map(commonness))
    const scenario = dice.pick(candidates.filter((candidate) => commonness(candidate) === least))
    if (scenario !== undefined) chosen.push(scenario)
  }
  return chosen
}

export function nameOf({ row, fate, transaction, to }: Scenario): string {
  const name = [row.case, `Redis ${fate}`, `transaction '${transaction}'`, `redelivered to ${to}`]
    .filter((part) => part !== undefined)
    .join(', ')
  return row.trap === undefined ? name : `${row.trap}: ${name}`
}
