import {
  type ConsumeStreamOptions,
  DEFAULTS,
  LONGEST_IDLE_MS,
} from '../../../packages/redis-streams/src/options.ts'
import { type BrokerDocs, type Docs, MS, type OwnOption } from '../../../scripts/docs-brokers.ts'

const OWN: Docs<OwnOption<ConsumeStreamOptions>> = {
  stream: {
    type: 'string | string[]',
    meaning: 'Key of the stream to read, or of several. Required.',
  },
  group: {
    type: 'string',
    default: "the guard's `consumer`",
    meaning: 'The consumer group. If it is missing, it is created at the first entry.',
  },
  consumerName: {
    type: 'string',
    default: 'host name, process id and a random part',
    meaning:
      'Name of this process in the group. No two processes may share one. Names that own nothing are removed after an hour.',
  },
  deadLetter: {
    type: '{ stream }',
    meaning:
      'Where dead messages go: an entry with their fields and the reason; then the original is acked (without an inbox in one step). If left out, they are only recorded in Postgres. Required without an inbox.',
  },
  claimIdleMs: {
    type: `integer, 1000–${LONGEST_IDLE_MS}`,
    unit: MS,
    default: "the guard's `leaseMs` and a tenth more, at least a second",
    meaning:
      'How long an entry must not have been renewed before another consumer takes it. Renewed while the entry is in hand. It decides how soon the entry of a dead process returns, not how long a handler may take.',
  },
  holdMs: {
    type: 'integer, 0–60000',
    unit: MS,
    default: DEFAULTS.holdMs,
    meaning:
      'Longest wait for which a deferred entry is held in memory. For a longer one it is parked in a sorted set beside the stream.',
  },
  bodyField: {
    type: 'string',
    default: `\`'${DEFAULTS.bodyField}'\``,
    meaning:
      'The field that is the body; all others are headers. A single field is the body. Of several fields without this one, all are the body, as a JSON object, and headers too.',
  },
  orderingField: {
    type: 'string',
    meaning:
      'The field whose value is the ordering key. None by default: order is kept within a process, and a deferred entry does not hold back later ones.',
  },
  keepEntries: {
    type: 'boolean',
    default: `\`${DEFAULTS.keepEntries}\``,
    meaning:
      'Whether settled entries stay in the stream, which your own XADD must then trim. By default entries are deleted with their ack. With several groups: `true`. Must be given if the group is missing and the stream has entries.',
  },
}

export const streamsDocs: BrokerDocs = {
  page: 'docs/redis-streams.md',
  options: OWN,
  defaults: DEFAULTS,
  told: [],
}
