import { usage } from '../failure.ts'

/** As the adapters call their brokers. */
export type BrokerName = 'kafka' | 'sqs' | 'amqp' | 'redis-streams' | 'nats'

/** What `--broker` says, before anything is loaded. */
export interface NamedBroker {
  readonly name: BrokerName
  /** As people call it. */
  readonly title: string
  /** Without what follows the `?`. */
  readonly url: string
  /** For the adapter. */
  readonly params: URLSearchParams
  /** The parameters that are ours: the guard that reads from it. */
  readonly guard: Readonly<Partial<Record<GuardParameter, string>>>
}

export type GuardParameter = (typeof GUARD_PARAMETERS)[number]

const GUARD_PARAMETERS = ['consumer', 'window', 'lease', 'deadline', 'attempts'] as const

const TITLES: Readonly<Record<BrokerName, string>> = {
  ...{ kafka: 'Kafka', sqs: 'SQS', amqp: 'RabbitMQ', 'redis-streams': 'Redis Streams' },
  nats: 'NATS',
}
const SCHEMES: Readonly<Record<string, BrokerName>> = {
  ...{ kafka: 'kafka', kafkas: 'kafka', amqp: 'amqp', amqps: 'amqp', http: 'sqs', https: 'sqs' },
  ...{ redis: 'redis-streams', rediss: 'redis-streams', nats: 'nats', tls: 'nats' },
}

/** @throws {@link Failure} for an address of no known broker. The text is not repeated, it may hold a password. */
export function parseBroker(text: string): NamedBroker {
  const [, scheme = ''] = /^([a-z]+):\/\//.exec(text) ?? []
  const name = SCHEMES[scheme]
  if (name === undefined) {
    throw usage(
      'Expected --broker to be kafka://host:9092?topic=orders, amqp://host?queue=orders, redis://host?stream=orders, nats://host?stream=ORDERS or the URL of an SQS queue.',
    )
  }
  const at = text.indexOf('?')
  const [url, query] = at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
  const params = new URLSearchParams(query)
  const own = GUARD_PARAMETERS.flatMap((each) => {
    const value = params.get(each)
    params.delete(each)
    return value === null ? [] : [[each, value]]
  })
  return { name, title: TITLES[name], url, params, guard: Object.fromEntries(own) }
}
