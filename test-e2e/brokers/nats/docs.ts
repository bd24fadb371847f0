import { type ConsumeNatsOptions, DEFAULTS } from '../../../packages/nats/src/options.ts'
import type { BrokerDocs, Docs, OwnOption } from '../../../scripts/docs-brokers.ts'

const OWN: Docs<OwnOption<ConsumeNatsOptions>> = {
  stream: { type: 'string', meaning: 'Name of the stream. Required.' },
  consumer: {
    type: 'string',
    default: "the guard's `consumer`",
    meaning: 'Name of the pull consumer, with explicit acks. It must exist.',
  },
  deadLetter: {
    type: '{ subject } | { stream }',
    meaning:
      'Where dead messages go, with headers that give the reason; then they are terminated. `{ stream }` is its first subject; `>` at its end becomes the subject of the message. If left out: only recorded in Postgres. Required without an inbox.',
  },
  orderingSubject: {
    type: 'true | integer, from 1',
    meaning:
      'What of the subject is the ordering key: all of it, or one token. None by default: order is kept within a process, and a deferred message does not hold back later ones.',
  },
  orderingHeader: {
    type: 'string',
    meaning: 'The header that is the ordering key. Not together with `orderingSubject`.',
  },
  domain: {
    type: 'string',
    default: 'that of the connection',
    meaning: 'The JetStream domain of the stream, behind a leaf node.',
  },
}

export const natsDocs: BrokerDocs = {
  page: 'docs/nats.md',
  options: OWN,
  defaults: DEFAULTS,
  told: [],
}
