import { skipped } from '@onceward/testing'
import { BROKERS, type BrokerName } from '../brokers/index.ts'
import { createDice, type Dice, seedOfCommit, shuffled } from '../support/dice.ts'
import { FATES, type Fate } from './cache.ts'
import { ROWS, type Row, wordOf } from './rows.ts'

export interface Scene {
  readonly broker: BrokerName
  readonly row: Row
  readonly fate: Fate
  readonly transaction: 'each' | 'batch'
  readonly to: 'the restarted process' | 'another process'
}

/**
 * The scenes of a broker: all of them with ONCEWARD_CRASH_MATRIX=all, otherwise some, chosen by the seed. The seed turns
 * with the commit, so that in time every scene is played. It is printed, and ONCEWARD_E2E_SEED repeats it.
 */
export function scenesOf(broker: BrokerName): readonly Scene[] {
  if (process.env['ONCEWARD_CRASH_MATRIX'] === 'all') return everyScene(broker)
  return sampleOf(broker, createDice(seedOfCommit()))
}

/** Scenes of one commit and broker. `npm run nightly` plays all. */
const SAMPLE = 5

/** Of different rows, with the values of every column about equally often. */
export function sampleOf(broker: BrokerName, dice: Dice): readonly Scene[] {
  return sample(everyScene(broker), dice)
}

export function everyScene(broker: BrokerName): readonly Scene[] {
  const fates = skipped('redis') ? (['absent'] as const) : FATES
  return ROWS.filter((row) => hasWord(broker, row)).flatMap((row) =>
    fates
      .filter((fate) => row.leased !== true || fate !== 'absent')
      .flatMap((fate) =>
        (['each', 'batch'] as const).flatMap((transaction) =>
          (['the restarted process', 'another process'] as const).map(
            (to): Scene => ({ broker, row, fate, transaction, to }),
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

function sample(scenes: readonly Scene[], dice: Dice): readonly Scene[] {
  const chosen: Scene[] = []
  const commonness = (scene: Scene): number =>
    chosen.filter(({ fate }) => fate === scene.fate).length * 2 +
    chosen.filter(({ transaction }) => transaction === scene.transaction).length +
    chosen.filter(({ to }) => to === scene.to).length
  for (const row of shuffled(ROWS, dice)) {
    if (chosen.length === SAMPLE) break
    const candidates = scenes.filter((scene) => scene.row === row)
    const least = Math.min(...candidates.map(commonness))
    const scene = dice.pick(candidates.filter((candidate) => commonness(candidate) === least))
    if (scene !== undefined) chosen.push(scene)
  }
  return chosen
}

export function nameOf({ row, fate, transaction, to }: Scene): string {
  const name = [row.case, `Redis ${fate}`, `transaction '${transaction}'`, `redelivered to ${to}`]
    .filter((part) => part !== undefined)
    .join(', ')
  return row.trap === undefined ? name : `${row.trap}: ${name}`
}
