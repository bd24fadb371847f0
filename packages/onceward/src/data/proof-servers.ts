import type { BrokerAddress, GivenServers, ProveBroker } from '@onceward/testing/prove'
import { usage } from '../failure.ts'
import { parseBroker } from './broker-address.ts'

const BROKERS: readonly ProveBroker[] = ['sqs', 'kafka', 'amqp', 'redis-streams', 'nats']

/** What `--broker` names: a broker, or its address. */
export function proveBroker(given: string | undefined): ProveBroker {
  if (given === undefined) return 'sqs'
  const meant = given.includes('://') ? parseBroker(given).name : given
  const named = BROKERS.find((name) => name === meant)
  if (named !== undefined) return named
  throw usage(
    `Expected --broker to be ${BROKERS.join(', ')}, or with \`--servers env\` an address.`,
  )
}

export interface ServerFlags {
  readonly url?: string | undefined
  readonly broker?: string | undefined
  readonly redis?: string | undefined
}

/** The user's servers, from the command line and the environment. */
export function proofServers({ broker, redis, url }: ServerFlags): GivenServers {
  const databaseUrl = url ?? process.env['DATABASE_URL'] ?? ''
  if (databaseUrl === '') throw usage('Which database? Give --url, or set DATABASE_URL.')
  const redisUrl = redis ?? process.env['REDIS_URL']
  return { databaseUrl, redisUrl, broker: addressOf(proveBroker(broker), broker, redisUrl) }
}

function addressOf(broker: ProveBroker, given = '', redisUrl: string | undefined): BrokerAddress {
  const address = given.includes('://') ? parseBroker(given).url : undefined
  switch (broker) {
    case 'sqs':
      return { broker, config: sqsOf(address) }
    case 'kafka':
      return {
        broker,
        config: kafkaOf(address ?? variable(broker, 'KAFKA_BROKERS', 'KAFKA_BROKER')),
      }
    case 'amqp':
      return { broker, url: address ?? variable(broker, 'RABBITMQ_URL', 'AMQP_URL') }
    case 'redis-streams':
      return { broker, url: address ?? redisUrl ?? variable(broker, 'REDIS_URL') }
    case 'nats':
      return { broker, url: address ?? variable(broker, 'NATS_URL') }
    default:
      return broker satisfies never
  }
}

function variable(broker: ProveBroker, ...names: readonly string[]): string {
  const value = names.map((name) => process.env[name]).find((each) => each)
  if (value !== undefined) return value
  throw usage(`Where is ${broker}? Give its address with --broker, or set ${names[0]}.`)
}

/** Region and credentials come from the environment, as for every client of AWS. */
function sqsOf(address: string | undefined): { readonly endpoint?: string } {
  const endpoint = address ?? process.env['AWS_ENDPOINT_URL_SQS'] ?? process.env['AWS_ENDPOINT_URL']
  return endpoint === undefined ? {} : { endpoint }
}

type KafkaConfig = Extract<BrokerAddress, { readonly broker: 'kafka' }>['config']

/** `host:9092,host:9092`, or kafka://user:password@host:9092; kafkas:// is with TLS. */
function kafkaOf(address: string): KafkaConfig {
  const {
    hosts = '',
    scheme = 'kafka',
    user,
  } = /^(?:(?<scheme>kafkas?):\/\/)?(?:(?<user>[^@]*)@)?(?<hosts>[^/?]*)/.exec(address)?.groups ??
  {}
  const [name = '', word = ''] = (user ?? '').split(':').map(decodeURIComponent)
  const username = name || process.env['KAFKA_USERNAME']
  const password = word || process.env['KAFKA_PASSWORD'] || ''
  return {
    brokers: hosts.split(',').map((host) => host.trim()),
    ...(scheme === 'kafkas' ? { ssl: true } : {}),
    ...(username === undefined ? {} : { sasl: { mechanism: 'plain', username, password } }),
  }
}
