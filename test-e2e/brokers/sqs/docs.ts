import { DEFAULTS as GUARD_DEFAULTS } from '../../../packages/core/src/options/table.ts'
import { receiveBudget } from '../../../packages/sqs/src/doctor.ts'
import {
  type ConsumeSqsOptions,
  DEFAULTS,
  LONGEST_VISIBILITY_MS,
  resolveSettings,
} from '../../../packages/sqs/src/options.ts'
import {
  type BrokerDocs,
  type Docs,
  MS,
  type OwnOption,
  type Told,
} from '../../../scripts/docs-brokers.ts'

const OWN: Docs<OwnOption<ConsumeSqsOptions>> = {
  queueUrl: {
    type: 'string',
    meaning: 'URL of the queue to read. Required.',
  },
  deadLetter: {
    type: "{ queueUrl } | 'redrive'",
    meaning:
      "Where dead messages go: to that queue, with headers that give the reason. `'redrive'` leaves them to the redrive policy of the queue. If left out, they are only recorded in Postgres and deleted. Required without an inbox.",
  },
  visibilityMs: {
    type: `integer, 1000–${LONGEST_VISIBILITY_MS}`,
    unit: MS,
    default: "the guard's `leaseMs` and a tenth more, at least a second, in whole seconds",
    meaning:
      'How long SQS hides a message after each receive and each renewal. Renewed while the message is in hand. It decides how soon the message of a dead process returns, not how long a handler may take.',
  },
  longPollMs: {
    type: 'integer, 0–20000',
    unit: MS,
    default: DEFAULTS.longPollMs,
    meaning:
      'How long a receive waits for a message. The drain of an idle consumer may take as long.',
  },
}

/** What the checks at start ask of a queue, for a guard with the default options. */
function queueSettings(): readonly RegExp[] {
  const guard = {
    ...GUARD_DEFAULTS,
    ...{ consumer: 'billing', hasInbox: true, hasLeases: false, lanesAreUsers: false },
    ...{ maxAttempts: GUARD_DEFAULTS.retry.attempts, retryMaxMs: GUARD_DEFAULTS.retry.maxMs },
  }
  const { visibilityMs } = resolveSettings({ queueUrl: 'https://sqs.test/1/orders' }, guard)
  return [
    new RegExp(`\\b${visibilityMs / 1_000} s or more`),
    new RegExp(`\`maxReceiveCount\`[ |]*${receiveBudget(guard, visibilityMs)} or more`),
  ]
}

export const sqsDocs: BrokerDocs = {
  page: 'docs/sqs.md',
  options: OWN,
  defaults: DEFAULTS,
  told: queueSettings().map((text): Told => ({ file: 'docs/sqs.md', text })),
}
