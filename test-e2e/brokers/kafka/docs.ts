import { type ConsumeKafkaOptions, DEFAULTS } from '../../../packages/kafka/src/options.ts'
import {
  type BrokerDocs,
  type Docs,
  MS,
  type OwnOption,
  sharedDocs,
} from '../../../scripts/docs-brokers.ts'

type ConsumerSetting =
  | 'consumer.sessionTimeout'
  | 'consumer.heartbeatInterval'
  | 'consumer.maxWaitTimeInMs'
  | 'consumer.retry'
  | 'consumer.allowAutoTopicCreation'

const OWN: Docs<OwnOption<ConsumeKafkaOptions> | ConsumerSetting> = {
  topics: {
    type: '(string | RegExp)[]',
    meaning: 'Topics to read. A pattern also takes topics that appear later.',
    reason: 'Required.',
  },
  groupId: {
    type: 'string',
    default: "the guard's `consumer`",
    meaning: 'The consumer group.',
    reason: 'Two guards in one group would each see a part of the records.',
  },
  deadLetter: {
    type: '{ producer, topic }',
    meaning:
      'Where dead messages go: to that topic, by a producer of yours, with headers that say why.',
    reason:
      'Left out, the record in Postgres is the place and the offset passes. Required without an inbox.',
  },
  fromBeginning: {
    type: 'boolean',
    default: 'true',
    meaning:
      'Where a group without an offset starts, and where it goes on when its offset fell out of the log.',
    reason: '`false` skips unread what is there then: that is loss.',
  },
  partitionsConsumedConcurrently: {
    type: 'integer, 1–1000',
    unit: 'partitions',
    default: DEFAULTS.partitionsConsumedConcurrently,
    meaning:
      'Partitions whose records may be in hand at once. How many handlers run is `concurrency` of the guard, over all of them.',
    reason: 'One slow partition must not stop the others, and what is in hand is memory.',
  },
  consumer: {
    type: 'Partial<ConsumerConfig>',
    meaning: 'Further settings of the kafkajs consumer that onceward makes.',
    reason: 'The rows below are the ones that onceward sets itself; yours win.',
  },
  'consumer.sessionTimeout': {
    type: 'integer, 1000–1800000',
    unit: MS,
    default: `${DEFAULTS.sessionTimeoutMs} (10 s); with \`leases\` at least \`leaseMs\`, up to 30 s`,
    meaning: 'A member that is silent for so long loses its partitions.',
    reason:
      'It bounds how soon the records of a dead process run elsewhere. A lease that outlives it makes them wait.',
  },
  'consumer.heartbeatInterval': {
    type: 'integer',
    unit: MS,
    default: 'a sixth of the sessionTimeout',
    meaning: 'Between two heartbeats; they go on while handlers run.',
    reason: 'At most a third of the session, so that one lost heartbeat costs nothing.',
  },
  'consumer.maxWaitTimeInMs': {
    type: 'integer',
    unit: MS,
    default: `${DEFAULTS.maxWaitTimeMs}, at most a third of the sessionTimeout`,
    meaning: 'How long a fetch waits for records.',
    reason: 'kafkajs sends heartbeats between fetches: an idle member needs short ones.',
  },
  'consumer.retry': {
    type: 'RetryOptions',
    default: 'as many retries as a session has seconds and 5, 100 ms to 1 s apart',
    meaning:
      'How kafkajs meets errors of the cluster. `restartOnFailure` is asked, and the restart is a new consumer of ours.',
    reason: 'A short outage then costs no rebalance.',
  },
  'consumer.allowAutoTopicCreation': {
    type: 'boolean',
    default: 'false',
    meaning: 'Whether asking for a topic may create it.',
    reason: 'A topic that was deleted must not come back empty because it is consumed.',
  },
}

const OPTIONS: Docs<string> = {
  ...OWN,
  ...sharedDocs(DEFAULTS),
  'batch.lingerMs': {
    type: 'integer, 0–60000',
    unit: MS,
    default: 'no effect',
    meaning: 'Accepted as in the other adapters.',
    reason: 'A fetch brings what there is: `consumer.minBytes` makes it wait for more.',
  },
}

export const kafkaDocs: BrokerDocs = {
  page: 'docs/kafka.md',
  options: OPTIONS,
  told: [
    {
      file: 'docs/kafka.md',
      text: `**\`sessionTimeout\`** (${DEFAULTS.sessionTimeoutMs / 1_000} s)`,
    },
  ],
}
