import {
  BROKER_NAMES,
  type BrokerName,
  brokersWith,
  DEFAULT_BROKER,
  isBrokerName,
} from '../brokers/index.ts'
import { integer, parseValues, UsageError } from '../support/command-line.ts'

const PAUSED = brokersWith(({ traits }) => traits.dropsSilentConsumers)

const USAGE = `npm run demo -- [--broker ${BROKER_NAMES.join('|')}] [--client NAME] [--events 300] [--kills 5] [--redis] [--console] [--json]
npm run demo -- --outbox [--broker NAME] [--events 300] [--kills 5] [--json]
npm run demo -- --http [--events 300] [--kills 5] [--json]

  --broker NAME  ${BROKER_NAMES.join(', ')}; on ${PAUSED.join(' and ')} one worker is also stopped by SIGSTOP, for longer than its session
  --client NAME  the client library, where a broker has several: with --broker kafka kafkajs, confluent, platformatic
  --events N     orders to charge, 1 to 100000
  --kills N      workers to kill by SIGKILL, without the guard and with it; at most one per 5 orders
  --redis        with leases in Redis in front of Postgres; Redis is flushed, killed and restarted on the way
  --outbox       each payment is announced to a webhook: by hand, then through the outbox
  --http         no broker: phones pay on a bad network, with an Idempotency-Key, at a server that is killed
  --console      with a web page (onceward console) on the run; afterwards the servers stay up until Ctrl-C
  --json         the result as one line of JSON on stdout; progress goes to stderr`

export interface DemoOptions {
  readonly broker: BrokerName
  /** Undefined: the broker's first. */
  readonly client: string | undefined
  readonly events: number
  readonly kills: number
  readonly redis: boolean
  readonly outbox: boolean
  readonly http: boolean
  readonly console: boolean
  readonly json: boolean
}

const OPTIONS = {
  broker: { type: 'string', default: DEFAULT_BROKER },
  client: { type: 'string' },
  events: { type: 'string', default: '300' },
  kills: { type: 'string', default: '5' },
  redis: { type: 'boolean', default: false },
  outbox: { type: 'boolean', default: false },
  http: { type: 'boolean', default: false },
  console: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
} as const

/** @throws {@link UsageError} */
export function parseOptions(args: readonly string[]): DemoOptions {
  const values = parseValues(args, OPTIONS, USAGE)
  const { broker } = values
  if (!isBrokerName(broker)) throw new UsageError(`unknown broker: ${broker}\n\n${USAGE}`)
  const events = integer('--events', values.events, [1, 100_000])
  const kills = integer('--kills', values.kills, [0, Math.ceil(events / 5)])
  const { client, console, http, json, outbox, redis } = values
  if (http && console) throw new UsageError(`--console is for brokers, not for --http\n\n${USAGE}`)
  if (outbox && (http || console || redis)) {
    throw new UsageError(`--outbox is played on a broker, alone\n\n${USAGE}`)
  }
  return { broker, client, events, kills, console, http, json, outbox, redis }
}
