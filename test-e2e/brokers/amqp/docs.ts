import { type ConsumeAmqpOptions, DEFAULTS } from '../../../packages/amqp/src/options.ts'
import {
  type BrokerDocs,
  type Docs,
  MS,
  type OwnOption,
  sharedDocs,
} from '../../../scripts/docs-brokers.ts'

const OWN: Docs<OwnOption<ConsumeAmqpOptions>> = {
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
    default: DEFAULTS.holdMs,
    meaning: 'Longest wait for which a message stays in hand instead of going to a delay queue.',
    reason: 'A held message costs a place in the prefetch, a delayed one two publishes.',
  },
  retryLevelsMs: {
    type: 'integer[]',
    unit: MS,
    default: DEFAULTS.retryLevelsMs.join(', '),
    meaning:
      'The delay queues, `<queue>.retry.<ms>` each: a message waits in the shortest one that is long enough.',
    reason:
      'One queue per level: in one queue for all, a short wait would stand behind a long one.',
  },
  consumerTimeoutMs: {
    type: 'integer, 121000–4294967295',
    unit: MS,
    default: DEFAULTS.consumerTimeoutMs,
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

export const amqpDocs: BrokerDocs = {
  page: 'docs/rabbitmq.md',
  options: { ...OWN, ...sharedDocs(DEFAULTS) },
  told: DEFAULTS.retryLevelsMs.map((ms) => ({
    file: 'docs/rabbitmq.md',
    text: new RegExp(`orders\\.retry\\.[0-9 /]*\\b${ms}\\b`),
  })),
}
