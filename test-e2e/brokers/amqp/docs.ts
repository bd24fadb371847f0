import { type ConsumeAmqpOptions, DEFAULTS } from '../../../packages/amqp/src/options.ts'
import { type BrokerDocs, type Docs, MS, type OwnOption } from '../../../scripts/docs-brokers.ts'

const OWN: Docs<OwnOption<ConsumeAmqpOptions>> = {
  queue: {
    type: 'string',
    meaning: 'The queue to read. It must exist. Required.',
  },
  deadLetter: {
    type: "{ queue } | { exchange, routingKey } | 'dlx'",
    meaning:
      "Where dead messages go: published there and confirmed, with headers that give the reason. `'dlx'` rejects them, for the dead-letter exchange of the queue. If left out, they are only recorded in Postgres and acked. Required without an inbox.",
  },
  prefetch: {
    type: 'integer, 1–65535',
    unit: 'messages',
    default:
      "follows the pace: `concurrency`, and half as many again while messages are quick; one batch or two with `transaction: 'batch'`",
    meaning:
      'Unsettled messages that the broker delivers at most. By default held messages that wait are not counted, up to three times `concurrency`, at least 20, or two batches in all. In a wrap: the value that `channel.prefetch()` got.',
  },
  holdMs: {
    type: 'integer, 0–60000',
    unit: MS,
    default: DEFAULTS.holdMs,
    meaning: 'Longest wait for which a message stays in memory instead of going to a delay queue.',
  },
  retryLevelsMs: {
    type: 'integer[]',
    unit: MS,
    default: DEFAULTS.retryLevelsMs.join(', '),
    meaning:
      'The delay queues, `<queue>.retry.<ms>` each, 100 or more: a message waits in the shortest one that is long enough, else again and again in the longest.',
  },
  consumerTimeoutMs: {
    type: 'integer, 121000–4294967295',
    unit: MS,
    default: DEFAULTS.consumerTimeoutMs,
    meaning:
      "The server's `consumer_timeout`, which a client cannot read. `deadlineMs` must be two minutes below it, and a message that could not end by then is returned unstarted. When it passes, the server closes the channel and requeues its messages.",
  },
  consumer: {
    type: 'Options.Consume',
    meaning:
      'Options for `channel.consume`: priority, exclusive, tag, arguments. `noAck` is refused.',
  },
  deadLetterPolicy: {
    type: 'boolean',
    default: 'false',
    meaning:
      'Set it to true if a policy gives the queue its dead-letter exchange. Otherwise a quorum queue that drops messages at its delivery limit is refused.',
  },
}

export const amqpDocs: BrokerDocs = {
  page: 'docs/rabbitmq.md',
  options: OWN,
  defaults: DEFAULTS,
  told: DEFAULTS.retryLevelsMs.map((ms) => ({
    file: 'docs/rabbitmq.md',
    text: new RegExp(`orders\\.retry\\.[0-9 /]*\\b${ms}\\b`),
  })),
}
