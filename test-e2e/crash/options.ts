import { BROKER_NAMES, type BrokerName } from '../brokers/index.ts'
import { integer, parseValues, UsageError } from '../support/command-line.ts'

const USAGE = `npm run crash -- [--broker ${BROKER_NAMES.join('|')}|all] [--minutes 1] [--rounds N] [--events 2000] [--seed N] [--beside COMMIT]
npm run crash -- --matrix [--broker … | --http]

  --broker NAME   one of them, or all in turn (default)
  --minutes N     no round begins later than this
  --rounds N      this many rounds, however long they take
  --events N      events of a round, 100 to 20000
  --seed N        of the first round; each further round has the next one
  --beside COMMIT every other worker runs the code of this commit, as in a rolling deployment
  --matrix        instead: every crash point × Redis × transaction × who gets the redelivery, as tests
  --http          with --matrix: every crash point of an HTTP server × framework × Redis`

export interface RunOptions {
  readonly brokers: readonly BrokerName[]
  readonly minutes: number
  readonly rounds: number | undefined
  readonly events: number
  readonly seed: number
  /** Every other worker runs the code of this commit. */
  readonly beside: string | undefined
}

const OPTIONS = {
  broker: { type: 'string', default: 'all' },
  minutes: { type: 'string', default: '1' },
  rounds: { type: 'string' },
  events: { type: 'string', default: '2000' },
  seed: { type: 'string' },
  beside: { type: 'string' },
} as const

/** @throws {@link UsageError} */
export function parseOptions(args: readonly string[]): RunOptions {
  const values = parseValues(args, OPTIONS, USAGE)
  const { beside, broker, rounds, seed } = values
  const brokers = broker === 'all' ? BROKER_NAMES : BROKER_NAMES.filter((name) => name === broker)
  if (brokers.length === 0) throw new UsageError(`unknown broker: ${broker}\n\n${USAGE}`)
  return {
    brokers,
    minutes: integer('--minutes', values.minutes, [0, 10_000]),
    rounds: rounds === undefined ? undefined : integer('--rounds', rounds, [1, 100_000]),
    events: integer('--events', values.events, [100, 20_000]),
    seed: seed === undefined ? Date.now() % 1_000_000 : integer('--seed', seed, [0, 2 ** 31]),
    beside,
  }
}
