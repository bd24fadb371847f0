import { skipped } from '@onceward/testing'
import { BROKER_NAMES, BROKERS, type BrokerName, DEFAULT_BROKER } from '../brokers/index.ts'
import { createDice, type Dice, diceOf, seedOfCommit, shuffled } from '../support/dice.ts'
import { ORM_NAMES } from '../support/workers/orm-inboxes.ts'
import { NEST_KINDS, type NestKind, type OrmName } from '../support/workers/protocol.ts'
import { FATES, type Fate } from './cache.ts'
import { ROWS, type Row, wordOf } from './rows.ts'

export interface Scenario {
  readonly broker: BrokerName
  readonly row: Row
  readonly fate: Fate
  readonly transaction: 'each' | 'batch'
  readonly to: 'the restarted process' | 'another process'
  /** The ORM of the workers' handlers. Left out: they have a client of pg. */
  readonly orm?: OrmName | undefined
  /** The workers are services of NestJS. Left out: they have a guard and nothing else. */
  readonly nest?: NestKind | undefined
}

/**
 * The scenarios of a broker: all of them with ONCEWARD_CRASH_MATRIX=all, otherwise some, chosen by the seed. The seed turns
 * with the commit, so that in time every scenario is played. It is printed, and ONCEWARD_E2E_SEED repeats it.
 */
export function scenariosOf(broker: BrokerName): readonly Scenario[] {
  const hasOrms = broker === DEFAULT_BROKER
  const dice = createDice(seedOfCommit())
  if (process.env['ONCEWARD_CRASH_MATRIX'] === 'all') {
    const every = everyScenario(broker)
    const withoutNest = hasOrms ? [...every, ...ormScenarios(every, dice)] : every
    return [...withoutNest, ...nestScenarios(every, dice)]
  }
  const drawn = sampleOf(broker, dice)
  return withNest(hasOrms ? withOrms(drawn, dice) : drawn, dice.seed)
}

/** An ORM reaches nothing but PostgreSQL, so one broker shows its crashes: every row once with each ORM. */
export function ormScenarios(every: readonly Scenario[], dice: Dice): readonly Scenario[] {
  return ORM_NAMES.flatMap((orm) =>
    [...new Set(every.map(({ row }) => row))].flatMap((row) => {
      const drawn = dice.pick(every.filter((scenario) => scenario.row === row))
      return drawn === undefined ? [] : [{ ...drawn, orm }]
    }),
  )
}

/** Two ORMs take the place of pg in as many scenarios, which takes no more time. */
export function withOrms(scenarios: readonly Scenario[], dice: Dice): readonly Scenario[] {
  const orms = shuffled(ORM_NAMES, dice).slice(0, 2)
  return scenarios.map((scenario, index) =>
    index < orms.length ? { ...scenario, orm: orms[index] } : scenario,
  )
}

/** A service of NestJS stands between the broker and the guard of every event: every row once on each broker. */
export function nestScenarios(every: readonly Scenario[], dice: Dice): readonly Scenario[] {
  return [...new Set(every.map(({ row }) => row))].flatMap((row) => {
    const drawn = dice.pick(every.filter((scenario) => scenario.row === row))
    return drawn === undefined ? [] : [{ ...drawn, nest: dice.pick(NEST_KINDS) }]
  })
}

/** The last scenario of one broker, which the seed chooses, is played by services of NestJS: its workers start slower. */
export function withNest(scenarios: readonly Scenario[], seed: number): readonly Scenario[] {
  const dice = diceOf(seed)
  const chosen = dice.pick(BROKER_NAMES)
  const nest = dice.pick(NEST_KINDS)
  return scenarios.map((scenario, index) =>
    scenario.broker === chosen && index === scenarios.length - 1 ? { ...scenario, nest } : scenario,
  )
}

/** Scenarios of one commit and broker. `npm run nightly` plays all. */
const SAMPLE = 3

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

export function nameOf({ row, fate, transaction, to, orm, nest }: Scenario): string {
  const name = [
    row.case,
    orm,
    nest,
    `Redis ${fate}`,
    `transaction '${transaction}'`,
    `redelivered to ${to}`,
  ]
    .filter((part) => part !== undefined)
    .join(', ')
  return row.trap === undefined ? name : `${row.trap}: ${name}`
}
