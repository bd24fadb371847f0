import { DEFAULTS as AMQP_DEFAULTS, type ConsumeAmqpOptions } from '../packages/amqp/src/options.ts'
import type { OptionDoc } from '../packages/core/src/options/derived.ts'
import {
  type ConsumeKafkaOptions,
  DEFAULTS as KAFKA_DEFAULTS,
} from '../packages/kafka/src/options.ts'
import { DEFAULTS as SQS_DEFAULTS } from '../packages/sqs/src/options.ts'

/** One row of a table of options. */
export type Doc = Omit<OptionDoc, 'name'>
/** A table of options, which misses none of them. */
export type Docs<Name extends string> = Readonly<Record<Name, Doc>>

export const MS = 'milliseconds'

const LONGEST_DRAIN_MS = 43_200_000

/** What the adapters share; their tables differ in the broker's own rows alone. */
export const SHARED: Docs<'batch.size' | 'batch.lingerMs' | 'drainMs' | 'signal'> = {
  'batch.size': {
    type: 'integer, 1–100',
    unit: 'messages',
    default: SQS_DEFAULTS.batchSize,
    meaning:
      "Most messages in one call of the guard. With `transaction: 'batch'` they share one transaction.",
    reason: 'Beyond a hundred, a larger batch gains little and loses more when it must be split.',
  },
  'batch.lingerMs': {
    type: 'integer, 0–60000',
    unit: MS,
    default: `0 with \`transaction: 'each'\`, ${SQS_DEFAULTS.lingerMs} with \`'batch'\``,
    meaning: 'How long to wait for a batch to fill, from its first message on.',
    reason: 'Single transactions gain nothing by waiting; later messages never prolong the wait.',
  },
  drainMs: {
    type: `integer, 0–${LONGEST_DRAIN_MS}`,
    unit: MS,
    default: SQS_DEFAULTS.drainMs,
    meaning: 'How long running handlers may go on in a drain before their signals abort.',
    reason:
      'With two seconds more for handlers that heed their signal, it fits in the 30 s of Kubernetes.',
  },
  signal: {
    type: 'AbortSignal',
    meaning: 'Aborted: the same as `drain()`.',
    reason: 'None by default: call `drain()` yourself.',
  },
}

type Own<Options> = Exclude<keyof Options, 'batch' | 'drainMs' | 'signal'> & string
type KafkaConsumerSetting =
  | 'consumer.sessionTimeout'
  | 'consumer.heartbeatInterval'
  | 'consumer.maxWaitTimeInMs'
  | 'consumer.retry'
  | 'consumer.allowAutoTopicCreation'

const KAFKA_OWN: Docs<Own<ConsumeKafkaOptions> | KafkaConsumerSetting> = {
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
    default: KAFKA_DEFAULTS.partitionsConsumedConcurrently,
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
    default: `${KAFKA_DEFAULTS.sessionTimeoutMs} (10 s); with \`leases\` at least \`leaseMs\`, up to 30 s`,
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
    default: `${KAFKA_DEFAULTS.maxWaitTimeMs}, at most a third of the sessionTimeout`,
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

export const KAFKA: Readonly<Record<string, Doc>> = {
  ...KAFKA_OWN,
  ...SHARED,
  'batch.lingerMs': {
    type: 'integer, 0–60000',
    unit: MS,
    default: 'no effect',
    meaning: 'Accepted as in the other adapters.',
    reason: 'A fetch brings what there is: `consumer.minBytes` makes it wait for more.',
  },
}

const AMQP_OWN: Docs<Own<ConsumeAmqpOptions>> = {
  queue: {
    type: 'string',
    meaning: 'The queue to read. It must exist.',
    reason: 'Required.',
  },
  deadLetter: {
    type: "{ queue } | { exchange, routingKey } | 'dlx'",
    meaning:
      "Where dead messages go: published there and confirmed, with headers that say why; or `'dlx'`, rejected, so that the queue's own dead-letter exchange takes them.",
    reason:
      'Left out, the record in Postgres is the place and the message is acked. Required without an inbox.',
  },
  prefetch: {
    type: 'integer, 1–65535',
    unit: 'messages',
    default: "three times `concurrency`, at least 20; two batches with `transaction: 'batch'`",
    meaning:
      'Messages that the broker hands over before the first is settled. In a wrap: what you gave to `channel.prefetch()`.',
    reason: 'Enough to keep handlers busy and to hold some that wait; at most half are held.',
  },
  holdMs: {
    type: 'integer, 0–60000',
    unit: MS,
    default: AMQP_DEFAULTS.holdMs,
    meaning: 'Longest wait for which a message stays in hand instead of going to a delay queue.',
    reason: 'A held message costs a place in the prefetch, a delayed one two publishes.',
  },
  retryLevelsMs: {
    type: 'integer[]',
    unit: MS,
    default: AMQP_DEFAULTS.retryLevelsMs.join(', '),
    meaning:
      'The delay queues, `<queue>.retry.<ms>` each: a message waits in the shortest one that is long enough.',
    reason:
      'One queue per level: in one queue for all, a short wait would stand behind a long one.',
  },
  consumerTimeoutMs: {
    type: 'integer, 121000–4294967295',
    unit: MS,
    default: AMQP_DEFAULTS.consumerTimeoutMs,
    meaning:
      "The server's `consumer_timeout`. Messages stay in hand for two minutes less, and `deadlineMs` must be as much below it.",
    reason: 'The default of RabbitMQ. Past it the server closes the channel under all messages.',
  },
  consumer: {
    type: 'Options.Consume',
    meaning: 'For `channel.consume`: priority, exclusive, tag, arguments.',
    reason: '`noAck` is refused: nothing could be settled.',
  },
  deadLetterPolicy: {
    type: 'boolean',
    default: 'false',
    meaning: 'True when a policy gives the queue its dead-letter exchange.',
    reason:
      'A client cannot see policies, and a quorum queue that drops messages at its delivery limit is refused.',
  },
}

export const AMQP: Readonly<Record<string, Doc>> = {
  ...AMQP_OWN,
  ...SHARED,
  'batch.lingerMs': {
    ...SHARED['batch.lingerMs'],
    default: `0 with \`transaction: 'each'\`, ${AMQP_DEFAULTS.lingerMs} with \`'batch'\``,
  },
}
