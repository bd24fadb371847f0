import { BROKER_NAMES, type BrokerName } from '../brokers/index.ts'
import { integer, parseValues, UsageError } from '../support/command-line.ts'

const USAGE = `npm run soak -- [--broker ${BROKER_NAMES.join('|')}|all] [--minutes 30] [--cycles N] [--events 500] [--seed N]

  --broker NAME   one of them, or all at once (default)
  --minutes N     no cycle begins later than this
  --cycles N      this many cycles, however long they take
  --events N      events of a cycle, for each broker, 50 to 20000
  --seed N        of the first cycle; each further one has the next`

export interface SoakOptions {
  readonly brokers: readonly BrokerName[]
  readonly minutes: number
  readonly cycles: number | undefined
  readonly events: number
  readonly seed: number
}

const OPTIONS = {
  broker: { type: 'string', default: 'all' },
  minutes: { type: 'string', default: '30' },
  cycles: { type: 'string' },
  events: { type: 'string', default: '500' },
  seed: { type: 'string' },
} as const

/** @throws {@link UsageError} */
export function parseOptions(args: readonly string[]): SoakOptions {
  const { broker, minutes, cycles, events, seed } = parseValues(args, OPTIONS, USAGE)
  const brokers = broker === 'all' ? BROKER_NAMES : BROKER_NAMES.filter((name) => name === broker)
  if (brokers.length === 0) throw new UsageError(`unknown broker: ${broker}\n\n${USAGE}`)
  return {
    brokers,
    minutes: integer('--minutes', minutes, [1, 10_000]),
    cycles: cycles === undefined ? undefined : integer('--cycles', cycles, [1, 100_000]),
    events: integer('--events', events, [50, 20_000]),
    seed: seed === undefined ? Date.now() % 1_000_000 : integer('--seed', seed, [0, 2 ** 31]),
  }
}
