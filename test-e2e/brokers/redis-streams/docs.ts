import {
  type ConsumeStreamOptions,
  DEFAULTS,
  LONGEST_IDLE_MS,
} from '../../../packages/redis-streams/src/options.ts'
import {
  type BrokerDocs,
  type Docs,
  MS,
  type OwnOption,
  sharedDocs,
} from '../../../scripts/docs-brokers.ts'

const OWN: Docs<OwnOption<ConsumeStreamOptions>> = {
  stream: {
    type: 'string | string[]',
    meaning: 'Key of the stream to read, or of several.',
    reason: 'Required.',
  },
  group: {
    type: 'string',
    default: "the guard's `consumer`",
    meaning: 'The consumer group. If it is missing, it is created at the first entry.',
    reason: 'One logical consumer is one group.',
  },
  consumerName: {
    type: 'string',
    default: 'host name, process id and a random part',
    meaning: 'Name of this process in the group.',
    reason:
      'The owner of an entry is told by its name, so no two processes may share one. Names that own nothing are removed after an hour.',
  },
  deadLetter: {
    type: '{ stream }',
    meaning:
      'Where dead messages go: an entry with their fields, and fields that give the reason, is added there. When that is recorded, the original is acked. Without an inbox both are one step.',
    reason:
      'If left out, dead messages are only recorded in Postgres and acked. Required without an inbox.',
  },
  claimIdleMs: {
    type: `integer, 1000–${LONGEST_IDLE_MS}`,
    unit: MS,
    default: "the guard's `leaseMs` and a tenth more, at least a second",
    meaning:
      'How long an entry must not have been renewed before another consumer takes it. Renewed while the entry is in hand.',
    reason:
      'It decides how soon the entry of a dead process returns, not how long a handler may take. It is a little longer than the lease, so that the lease has expired by then.',
  },
  holdMs: {
    type: 'integer, 0–60000',
    unit: MS,
    default: DEFAULTS.holdMs,
    meaning:
      'Longest wait for which a deferred entry is held in memory. For a longer one it is parked in a sorted set beside the stream.',
    reason: 'Most retries are due within seconds, and a held one costs Redis nothing but renewals.',
  },
  bodyField: {
    type: 'string',
    default: `\`'${DEFAULTS.bodyField}'\``,
    meaning:
      'The field that is the body; all others are headers. A single field is the body. Of several fields without this one, all are the body, as a JSON object, and headers too.',
    reason: 'Producers of streams have no agreed form.',
  },
  orderingField: {
    type: 'string',
    meaning: 'The field whose value is the ordering key.',
    reason:
      'None by default: a stream has no keys. Order is kept within a process, and a deferred entry does not hold back later ones.',
  },
  keepEntries: {
    type: 'boolean',
    default: `\`${DEFAULTS.keepEntries}\``,
    meaning: 'Whether settled entries stay in the stream. Your own XADD must then trim it.',
    reason:
      'The default deletes an entry with its ack, so nothing has to be trimmed. With several groups it must be `true`, and a start without it is refused. If the group is missing and the stream has entries already, it must be given.',
  },
}

export const streamsDocs: BrokerDocs = {
  page: 'docs/redis-streams.md',
  options: { ...OWN, ...sharedDocs(DEFAULTS) },
  told: [],
}
