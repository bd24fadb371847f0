import { type ConsumeKafkaOptions, DEFAULTS } from '../../../packages/kafka/src/options.ts'
import { type BrokerDocs, type Docs, MS, type OwnOption } from '../../../scripts/docs-brokers.ts'

type ConsumerSetting =
  | 'consumer.sessionTimeout'
  | 'consumer.heartbeatInterval'
  | 'consumer.maxWaitTimeInMs'
  | 'consumer.retry'
  | 'consumer.allowAutoTopicCreation'

const OWN: Docs<OwnOption<ConsumeKafkaOptions> | ConsumerSetting> = {
  topics: {
    type: '(string | RegExp)[]',
    meaning:
      "Topics to read. A pattern also takes topics that appear later, and none of Kafka's own. Required.",
  },
  groupId: {
    type: 'string',
    default: "the guard's `consumer`",
    meaning: 'The consumer group. Two guards in one group would each see a part of the records.',
  },
  deadLetter: {
    type: '{ producer, topic }',
    meaning:
      'Where dead messages go: to that topic, sent by your producer, with headers that give the reason. If left out, dead messages are only recorded in Postgres and the offset moves. Required without an inbox.',
  },
  fromBeginning: {
    type: 'boolean',
    default: 'true',
    meaning:
      'True: a group without an offset starts at the oldest record. See [where a group starts](kafka.md#where-a-group-starts). `false` skips the records that are in the log at the first start of the group, and no others.',
  },
  identity: {
    type: "'key' | 'offsets'",
    default: '`key`',
    meaning:
      'What identifies an event: its key, or the place of its record. See [offsets as identity](kafka.md#offsets-as-identity). With `offsets` a copy that the producer sends runs again, and clean records store nothing.',
  },
  partitionsConsumedConcurrently: {
    type: 'integer, 1–1000',
    unit: 'partitions',
    default: DEFAULTS.partitionsConsumedConcurrently,
    meaning:
      "Partitions whose records kafkajs hands over at once. Slow handlers hold none of them: the guard's `concurrency` limits the handlers over all partitions.",
  },
  consumer: {
    type: 'Partial<ConsumerConfig>',
    meaning:
      'Further settings of the kafkajs consumer that onceward creates. onceward sets those in the rows below; your values win.',
  },
  'consumer.sessionTimeout': {
    type: 'integer, 1000–1800000',
    unit: MS,
    default: `${DEFAULTS.sessionTimeoutMs} (10 s); with \`leases\` at least \`leaseMs\`, up to 30 s`,
    meaning:
      'A member that is silent for this long loses its partitions. A lease that outlives the session makes the records of a dead process wait.',
  },
  'consumer.heartbeatInterval': {
    type: 'integer',
    unit: MS,
    default: 'a sixth of the sessionTimeout',
    meaning:
      'Time between two heartbeats, which continue while handlers run. At most a third of the session.',
  },
  'consumer.maxWaitTimeInMs': {
    type: 'integer',
    unit: MS,
    default: `${DEFAULTS.maxWaitTimeMs}, at most a third of the sessionTimeout`,
    meaning: 'How long a fetch waits for records.',
  },
  'consumer.retry': {
    type: 'RetryOptions',
    default: '6 retries, 100 ms to 2 s apart',
    meaning:
      'How kafkajs retries after cluster errors. If `restartOnFailure` agrees, onceward restarts with a new consumer.',
  },
  'consumer.allowAutoTopicCreation': {
    type: 'boolean',
    default: 'false',
    meaning: 'Whether a request for a missing topic creates it.',
  },
}

export const kafkaDocs: BrokerDocs = {
  page: 'docs/kafka.md',
  options: OWN,
  defaults: DEFAULTS,
  told: [
    {
      file: 'docs/kafka.md',
      text: `**\`sessionTimeout\`** (${DEFAULTS.sessionTimeoutMs / 1_000} s)`,
    },
  ],
}
