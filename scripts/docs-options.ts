import { OPTION_DOCS, OPTION_RULES, type OptionDoc } from '../packages/core/src/options/table.ts'
import {
  DEFAULTS as HTTP_DEFAULTS,
  LARGEST_BODY,
  MOST_WAITING,
} from '../packages/http/src/options.ts'
import {
  DEFAULTS as LAMBDA_DEFAULTS,
  type LambdaKafkaOptions,
  type LambdaSqsOptions,
} from '../packages/lambda/src/options.ts'
import { MAX_STORED_BYTES } from '../packages/postgres/src/inbox/inbox.ts'
import type { KyselyInboxOptions } from '../packages/postgres/src/kysely.ts'
import { DEFAULTS as INBOX_DEFAULTS } from '../packages/postgres/src/options.ts'
import {
  RELAY_DEFAULTS,
  RELAY_RANGES,
  type RelayOptions,
} from '../packages/postgres/src/outbox/options.ts'
import { DEFAULT_SCHEMA } from '../packages/postgres/src/statements/schema-name.ts'
import {
  DEFAULTS as REDIS_DEFAULTS,
  type RedisLeasesOptions,
} from '../packages/redis/src/options.ts'
import { BROKER_NAMES, BROKERS } from '../test-e2e/brokers/index.ts'
import { type Docs, MS, sharedDocs } from './docs-brokers.ts'
import { code, table, withDuration } from './docs-table.ts'

/** Without the one that only tests set. */
const INBOX: Docs<Exclude<keyof KyselyInboxOptions, 'commitSilenceMs'>> = {
  schema: {
    type: 'string, 1–63 bytes',
    default: DEFAULT_SCHEMA,
    meaning: 'Schema of the tables. Pass the same one to `migrate` and `deadLetters`.',
  },
  maxStoredBytes: {
    type: 'integer, 2097152–1073741824',
    unit: 'bytes',
    default: MAX_STORED_BYTES,
    meaning:
      'The largest message that is stored with a dead letter or a refused message. A larger one is published whole to the dead-letter place. Without a place it stays with the broker, deferred and reported.',
  },
  isolation: {
    type: "'read committed' | 'repeatable read' | 'serializable'",
    default: INBOX_DEFAULTS.isolation,
    meaning:
      "Isolation level of the handler's transactions. It cannot be set after the claim. With the other levels a transaction that fails to serialize runs again, at most five times for one event.",
  },
  poolSize: {
    type: 'integer, 1 or more',
    default: undefined,
    meaning:
      'Kysely only: the number of connections in its pool. If set, guards that share the pool take turns, two connections stay spare, and a `concurrency` that the pool cannot carry is refused at start.',
  },
}

const REDIS: Docs<keyof RedisLeasesOptions> = {
  budgetMs: {
    type: 'integer, 1–60000',
    unit: MS,
    default: `${REDIS_DEFAULTS.besideMs} beside an inbox, ${REDIS_DEFAULTS.aloneMs} without`,
    meaning: 'Longest wait for Redis. Beside an inbox the guard then goes straight to Postgres.',
  },
  namespace: {
    type: 'string, 1–64 of `A–Z a–z 0–9 . _ : -`',
    default: REDIS_DEFAULTS.namespace,
    meaning: 'Part of every key. Beside an inbox the identity of the Postgres history is added.',
  },
  rememberDoneMs: {
    type: 'integer, 1000–31536000000',
    unit: MS,
    default: REDIS_DEFAULTS.rememberDoneMs,
    meaning:
      'How long done events are remembered beside an inbox: at least this long (or a third of the dedup window, if that is less), at most twice as long. Without an inbox: not shorter than the dedup window.',
  },
  hold: {
    type: "'always' | 'by-need'",
    default: REDIS_DEFAULTS.hold,
    meaning:
      "Which events are claimed beside an inbox. 'by-need': deliveries that may be copies, and all events while a quarter of them are copies that Redis knows; others are marked as done behind their commits. 'always': all.",
  },
}

const HTTP: Docs<
  | 'tenant'
  | 'schema'
  | 'decode'
  | 'fingerprint'
  | 'storedHeaders'
  | 'maxBodyBytes'
  | 'maxWaiting'
  | 'onHangUp'
> = {
  tenant: {
    type: "'none' | (request) => string | undefined | Promise<…>",
    meaning:
      "The caller's identity, to which its keys belong. If the function finds none, the answer is 401. `'none'`: all callers share one key space. Required: without it, callers with equal keys would get the answers of others.",
  },
  schema: {
    type: 'StandardSchemaV1<unknown, Payload>',
    meaning: 'Checks and types `payload`. A body that does not match is answered 400.',
  },
  decode: {
    type: '(bytes, request) => Decoded | Promise<Decoded>',
    default: 'JSON in UTF-8; an empty body is null',
    meaning:
      'Turns the body into a value. If it throws, the request is answered 400. Without it other content types than JSON are answered 415.',
  },
  fingerprint: {
    type: "'body' | 'none' | (payload) => unknown",
    default: HTTP_DEFAULTS.fingerprint,
    meaning:
      'Which part of the payload is compared, besides method, path and query, when a key is used again. If `decode` is set, the bytes are compared. `none` ignores the body. Set a function if clients stamp each attempt.',
  },
  storedHeaders: {
    type: 'string[]',
    meaning: 'Further headers that are stored with the answer and sent again. Never `Set-Cookie`.',
  },
  maxBodyBytes: {
    type: `integer, 1–${LARGEST_BODY}`,
    unit: 'bytes',
    default: HTTP_DEFAULTS.maxBodyBytes,
    meaning: 'Longest body. A longer one is answered 413 and not read to its end.',
  },
  maxWaiting: {
    type: `integer, 0–${MOST_WAITING}`,
    unit: 'requests',
    default: HTTP_DEFAULTS.maxWaiting,
    meaning:
      'Requests that may wait while `concurrency` handlers run. Further requests are answered 503 `overloaded` at once.',
  },
  onHangUp: {
    type: "'finish' | 'abort'",
    default: HTTP_DEFAULTS.onHangUp,
    meaning:
      'Whether a running handler goes on (`finish`) or its signal aborts (`abort`) when its client closes the connection.',
  },
}

const LAMBDA: Docs<keyof LambdaSqsOptions | keyof LambdaKafkaOptions> = {
  marginMs: {
    type: 'integer, 100–60000',
    unit: MS,
    default: LAMBDA_DEFAULTS.marginMs,
    meaning:
      'The end of an invocation, which handlers cannot use: runs that were cut off are rolled back and recorded, and the answer is sent. Default: at most half of the invocation. A slow or distant database needs more.',
  },
  partialResponses: {
    type: 'boolean',
    default: '`true` for SQS, `false` for Kafka',
    meaning:
      'SQS and Kafka only. True: the answer lists what is not done. The event source mapping must have `ReportBatchItemFailures`. False: the function throws, and the whole batch comes again. For Kafka it needs provisioned mode.',
  },
  deadLetter: {
    type: "'redrive' | 'destination'",
    default: undefined,
    meaning:
      "Where dead messages go: reported as failures, to the redrive policy of the queue (`'redrive'`, SQS) or the on-failure destination (`'destination'`, the others). If left out, they are only in `failed_events` and count as done. Required without an inbox.",
  },
  changeVisibility: {
    type: '(change) => unknown',
    default: undefined,
    meaning:
      'SQS only. Called for each message that is not due before a certain time. Without it, messages return after the visibility timeout.',
  },
}

const range = ([least, most]: readonly [number, number]): string => `integer, ${least}–${most}`

const number = (
  name: keyof typeof RELAY_DEFAULTS,
  meaning: string,
  unit: OptionDoc['unit'] = MS,
): Docs<string>[string] => ({
  type: range(RELAY_RANGES[name]),
  ...(unit === undefined ? {} : { unit }),
  default: RELAY_DEFAULTS[name],
  meaning,
})

/** Without the ones that only simulations set. */
const RELAY: Docs<Exclude<keyof RelayOptions, 'runtime'>> = {
  destinations: {
    type: 'Record<string, Destination>',
    meaning:
      'Where messages go, by the name that `outbox.send({ to })` uses. Messages to other names stay in the table.',
  },
  connectionString: {
    type: 'string',
    meaning: 'Of the database. The relay makes a pool of its own. One of this, `pool` and `inbox`.',
  },
  pool: {
    type: 'Pool',
    meaning: 'A pool of pg. The relay uses one connection for each destination and two besides.',
  },
  inbox: {
    type: 'Inbox',
    meaning:
      'Reads the tables of this inbox, over the pool or the connection string that it was made with.',
  },
  signal: { type: 'AbortSignal', meaning: 'Aborted means drain.' },
  schema: { type: 'string, 1–63 bytes', default: DEFAULT_SCHEMA, meaning: 'Schema of the tables.' },
  seal: {
    type: '{ seal, open }',
    meaning:
      'Of the guards whose messages are [sealed](sealing.md). A message that cannot be opened waits, with those behind it.',
  },
  attempts: number(
    'attempts',
    'Calls in which a destination refuses a message, before it is a dead letter. With `giveUpAfterMs` there is no limit by default.',
    'calls',
  ),
  baseMs: number(
    'baseMs',
    'Longest wait after the first refusal of a message. It doubles with each further one.',
  ),
  maxMs: number('maxMs', 'Longest wait between two attempts.'),
  giveUpAfterMs: {
    type: range(RELAY_RANGES.giveUpAfterMs),
    unit: MS,
    meaning: 'A message that is refused so long after its first refusal is a dead letter.',
  },
  concurrency: number('concurrency', 'Calls of one destination at the same time.', 'calls'),
  callMs: number('callMs', 'Longest wait for the confirmation of a broker.'),
  leaseMs: number('leaseMs', 'How long a relay that is gone keeps its messages from the others.'),
  drainMs: number('drainMs', 'Longest wait for calls that run when the relay drains.'),
  logger: {
    type: 'Logger',
    default: 'as that of guards',
    meaning: 'A pino instance or `console`.',
  },
}

/** What each function that makes a destination takes. */
const DESTINATIONS: Readonly<
  Record<string, readonly [first: string, options: string, meaning: string]>
> = {
  kafkaDestination: [
    'a connected producer',
    '{ topic }',
    'The key of a message is that of its record. Records are confirmed by all in-sync replicas.',
  ],
  sqsDestination: [
    'an `SQSClient`',
    '{ queueUrl }',
    'FIFO: the key is the message group, the id the deduplication id. A standard queue keeps no order.',
  ],
  amqpDestination: [
    '`() => connect(url)`',
    '{ exchange, routingKey }',
    "`exchange: ''` is the default exchange, whose routing keys are names of queues. A message that reaches no queue stays in the outbox.",
  ],
  streamDestination: [
    'a client of Redis',
    '{ stream, bodyField? }',
    "`bodyField` is the field of the payload, `'payload'` by default, as of consumers.",
  ],
  webhookDestination: [
    '',
    '{ url, secret, fetch? }',
    'A signed POST for each message. `secret`: Base64 of at least 16 bytes, with or without `whsec_`.',
  ],
}

const destinationTable = (): string =>
  table(
    ['Function', 'First argument', 'Options', 'What it does'],
    Object.entries(DESTINATIONS).map(([name, [first, options, meaning]]) => [
      ...[code(name), first, code(options), meaning],
    ]),
  )

const named = (docs: Docs<string>): readonly OptionDoc[] =>
  Object.entries(docs).map(([name, doc]) => ({ name, ...doc }))

const ADAPTERS = await Promise.all(
  BROKER_NAMES.map(async (name) => ({
    ...{ name, title: BROKERS[name].title },
    ...(await BROKERS[name].docs()),
  })),
)

const SHARED = sharedDocs(
  Object.fromEntries(ADAPTERS.map(({ defaults, title }) => [title, defaults])),
)

/** Tables of options by the name that a document asks for; a broker's table has the name of its package. */
export const OPTION_TABLES: Readonly<Record<string, () => string>> = {
  guard: () => optionTable(OPTION_DOCS.map(withRange)),
  consumers: () => optionTable(named(SHARED)),
  ...Object.fromEntries(
    ADAPTERS.map(({ name, options }) => [name, () => optionTable(named(options))]),
  ),
  redis: () => optionTable(named(REDIS)),
  inbox: () => optionTable(named(INBOX)),
  http: () => optionTable(named(HTTP)),
  lambda: () => optionTable(named(LAMBDA)),
  relay: () => optionTable(named(RELAY)),
  destinations: destinationTable,
}

/** Numbers get the range that the code checks. */
function withRange(doc: OptionDoc): OptionDoc {
  const range = /from (\d+) to (\d+)/.exec(OPTION_RULES[doc.name]?.expected ?? '')
  return range === null ? doc : { ...doc, type: `${doc.type}, ${range[1]}–${range[2]}` }
}

function optionTable(docs: readonly OptionDoc[]): string {
  return table(
    ['Option', 'Type', 'Default', 'What it is'],
    docs.map((doc) => [code(doc.name), typeCell(doc), defaultCell(doc), doc.meaning]),
  )
}

/** The name says that a number is milliseconds, as a rule. */
function typeCell({ name, type, unit }: OptionDoc): string {
  const text = /^(integer|string), /.test(type) ? type : code(type)
  return unit === undefined || name.endsWith('Ms') ? text : `${text} (${unit})`
}

function defaultCell({ default: value, unit }: OptionDoc): string {
  if (value === undefined) return ''
  if (typeof value === 'number') return unit === MS ? withDuration(value) : code(String(value))
  return /[ `]/.test(value) && !value.startsWith('[') ? value : code(value)
}
