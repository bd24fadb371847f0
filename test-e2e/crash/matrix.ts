import { skipped } from '@onceward/testing'
import { type Broker, KAFKA, rabbitOf, SQS } from '../support/brokers/brokers.ts'
import { createDice, type Dice } from '../support/dice.ts'
import type { Word } from '../support/workers/protocol.ts'
import { FATES, type Fate } from './cache.ts'
import { ROWS, type Row, wordOf } from './rows.ts'

export type BrokerName = 'sqs' | 'kafka' | 'amqp'

export const BROKERS: { readonly [Name in BrokerName]: Broker } = {
  sqs: SQS,
  kafka: KAFKA,
  // Nothing is held in hand: what is deferred waits in a delay queue.
  amqp: rabbitOf('classic', { holdMs: 0 }),
}

export interface Scene {
  readonly row: Row
  readonly fate: Fate
  readonly transaction: 'each' | 'batch'
  readonly to: 'the restarted process' | 'another process'
}

/** The scenes of a broker: all of them with ONCEWARD_CRASH_MATRIX=all, else one for each row, as the dice fall. */
export function scenesOf(broker: BrokerName): readonly Scene[] {
  const all = everyScene(broker)
  return process.env['ONCEWARD_CRASH_MATRIX'] === 'all' ? all : sample(all, createDice())
}

function everyScene(broker: BrokerName): readonly Scene[] {
  const fates = skipped('redis') ? (['absent'] as const) : FATES
  return ROWS.filter((row) => hasWord(broker, row)).flatMap((row) =>
    fates
      .filter((fate) => row.leased !== true || fate !== 'absent')
      .flatMap((fate) =>
        (['each', 'batch'] as const).flatMap((transaction) =>
          (['the restarted process', 'another process'] as const).map(
            (to): Scene => ({ row, fate, transaction, to }),
          ),
        ),
      ),
  )
}

/** What an adapter never says: to defer is to pause on Kafka, and one word on SQS. */
const UNSAID: { readonly [Name in BrokerName]: readonly Word[] } = {
  sqs: ['release-on-wire'],
  kafka: ['defer-on-wire', 'release-on-wire'],
  amqp: [],
}

function hasWord(broker: BrokerName, row: Row): boolean {
  const word = wordOf(row)
  return word === undefined || !UNSAID[broker].includes(word)
}

/** Each row once, and every column about as often as its neighbours. */
function sample(scenes: readonly Scene[], dice: Dice): readonly Scene[] {
  const chosen: Scene[] = []
  const commonness = (scene: Scene): number =>
    chosen.filter(({ fate }) => fate === scene.fate).length * 2 +
    chosen.filter(({ transaction }) => transaction === scene.transaction).length +
    chosen.filter(({ to }) => to === scene.to).length
  for (const row of ROWS) {
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
