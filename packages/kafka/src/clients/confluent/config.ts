import { refuseProblems, shown } from '@onceward/core/adapter'
import type { ConsumerSettings } from '../../options.ts'
import type { RdConfig } from './rdkafka.ts'

/**
 * Settings of librdkafka by their own names, for the consumer, the producer of dead letters and the checks. Functions
 * such as `oauthbearer_token_refresh_cb` may be among them.
 *
 * @see https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
 */
export interface ConfluentConfig {
  /** Brokers as `host:port`, separated by commas. */
  readonly 'bootstrap.servers': string
  /** @defaultValue `classic`; `consumer` is the protocol of KIP-848, for brokers from 4.0 on */
  readonly 'group.protocol'?: 'classic' | 'consumer' | undefined
  readonly [name: string]: unknown
}

/** What onceward decides. Any other value would lose or double records. */
const DECIDED: Readonly<Record<string, { readonly value: unknown; readonly why: string }>> = {
  'enable.auto.commit': {
    value: false,
    why: 'librdkafka would commit records that are not processed.',
  },
  'enable.auto.offset.store': {
    value: false,
    why: 'librdkafka would commit records that are not processed.',
  },
  'auto.offset.reset': {
    value: 'earliest',
    why: 'records would be skipped. `fromBeginning: false` lets a new group start at the end.',
  },
  'isolation.level': {
    value: 'read_committed',
    why: 'records of transactions that their producer aborts would have effects.',
  },
  'allow.auto.create.topics': {
    value: false,
    why: 'a topic that is deleted would come back empty because it is consumed.',
  },
}

/** Given elsewhere, or used by the adapter itself. */
const REFUSED: Readonly<Record<string, string>> = {
  'group.id': 'Use `groupId` of `consumeKafka`; its default is the consumer of the guard.',
  rebalance_cb: '`consumeKafka` needs it itself.',
  offset_commit_cb: '`consumeKafka` needs it itself.',
  event_cb: '`consumeKafka` needs it itself.',
  kafkaJS: 'Give the settings of librdkafka by their own names.',
}

/** Settings that a producer or an admin client refuses or warns of. */
const OF_CONSUMERS = [
  ...Object.keys(DECIDED),
  ...['group.protocol', 'group.instance.id', 'group.remote.assignor', 'client.rack'],
  ...['partition.assignment.strategy', 'session.timeout.ms', 'heartbeat.interval.ms'],
  ...['max.poll.interval.ms', 'check.crcs', 'queued.min.messages', 'queued.max.messages.kbytes'],
]

/** @throws {@link ConfigurationError} with every problem at once. */
export function checkConfig(config: ConfluentConfig): void {
  const given: unknown = config
  if (typeof given !== 'object' || given === null) {
    refuseProblems([
      "Expected `confluent` to get settings of librdkafka, such as { 'bootstrap.servers': 'host:9092' }.",
    ])
  }
  const servers = config['bootstrap.servers'] ?? config['metadata.broker.list']
  refuseProblems([
    ...(typeof servers === 'string' && servers !== ''
      ? []
      : ["Expected `'bootstrap.servers'` to be a list of brokers such as 'host:9092'."]),
    ...Object.entries(DECIDED).flatMap(([name, { value, why }]) => {
      const own = config[name]
      if (own === undefined || String(own) === String(value)) return []
      return [
        `Expected \`'${name}'\` to be left out or ${value}, got ${shown(String(own))}: ${why}`,
      ]
    }),
    ...Object.entries(REFUSED).flatMap(([name, why]) =>
      config[name] === undefined ? [] : [`Expected \`'${name}'\` to be left out. ${why}`],
    ),
  ])
}

const isClassic = (config: ConfluentConfig): boolean => config['group.protocol'] !== 'consumer'

export function consumerConfig(
  config: ConfluentConfig,
  { consumer }: Pick<ConsumerSettings, 'consumer'>,
  guardConsumer: string,
): RdConfig {
  const { groupId, heartbeatInterval, maxWaitTimeInMs, sessionTimeout } = consumer
  const decided = Object.entries(DECIDED).map(([name, { value }]) => [name, value])
  return {
    'client.id': guardConsumer,
    'fetch.wait.max.ms': maxWaitTimeInMs,
    // Partitions that are added are found after this time.
    'topic.metadata.refresh.interval.ms': 10_000,
    // The broker decides both in the newer protocol, and librdkafka refuses them.
    ...(isClassic(config) && {
      'session.timeout.ms': sessionTimeout,
      'heartbeat.interval.ms': heartbeatInterval,
      // Members that lose nothing work on while a partition moves.
      'partition.assignment.strategy': 'cooperative-sticky',
    }),
    ...withoutUndefined(config),
    ...Object.fromEntries(decided),
    'group.id': groupId,
    'enable.partition.eof': true,
  }
}

/** For clients that are no consumers. */
export function clientConfig(config: ConfluentConfig): RdConfig {
  const entries = Object.entries(withoutUndefined(config))
  return Object.fromEntries(
    entries.filter(([name]) => !(OF_CONSUMERS.includes(name) || name.startsWith('fetch.'))),
  )
}

const withoutUndefined = (config: ConfluentConfig): RdConfig =>
  Object.fromEntries(Object.entries(config).filter(([, value]) => value !== undefined))
