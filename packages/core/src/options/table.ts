import type { Defaults, GuardOptionName } from './options.ts'
import type { DefaultedOptions } from './resolved-options.ts'
import {
  aBoolean,
  aFunction,
  consumerName,
  either,
  groups,
  hooks,
  inbox,
  integer,
  milliseconds,
  objectWith,
  oneOf,
  type Rule,
  resolvers,
  standardSchema,
  store,
} from './rules.ts'

interface Row {
  readonly type: string
  readonly unit?: string
  readonly rule: Rule
  /** What the option is, and what one must know before one sets it. */
  readonly meaning: string
}

type FlatDefaults = Omit<Defaults, 'retry'> & {
  readonly [Name in keyof Defaults['retry'] as `retry.${Name}`]: Defaults['retry'][Name]
}

/** A default that is not a plain value is a text for the documents; `guard/resolve-options.ts` has the value. */
type DefaultOf<Name> = Name extends keyof FlatDefaults
  ? { readonly default: FlatDefaults[Name] }
  : { readonly defaultText?: string }

/** One row per option of the types, so a forgotten row does not compile. */
export type OptionTable = { readonly [Name in GuardOptionName]: Row & DefaultOf<Name> }

const MS = 'milliseconds'
const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

/**
 * Every option of `createGuard`, in the order in which one reads about them. `DEFAULTS`, `OPTION_RULES`, `OPTION_DOCS`
 * and docs/configuration.md are derived from it.
 */
export const OPTIONS: OptionTable = {
  consumer: {
    type: 'string',
    rule: consumerName,
    meaning:
      'Name of the logical consumer: 1–128 of `A–Z a–z 0–9 . _ : -`. Part of the identity of every event. Two consumers of one event each have their own effect. After a rename every event is new.',
  },
  inbox: {
    type: 'Inbox<Tx>',
    rule: inbox,
    meaning:
      'The durable guard: `pgInbox(pool)`, [that of your ORM](orms.md), `redisInbox(redis)` or, in unit tests, `memoryInbox()`. Required unless `leases` or `dedup` is given.',
  },
  leases: {
    type: 'LeaseStore',
    rule: store('a lease store', 'claim', 'renew', 'complete', 'fail', 'release', 'bury'),
    meaning:
      'Where live claims are stored. Beside an inbox leases are a fast path; alone they guard effects outside Postgres.',
  },
  dedup: {
    type: 'ApproximateDedup',
    rule: store('an approximate dedup', 'asLeases'),
    meaning:
      'For telemetry alone, in place of `inbox` and `leases`: `approximateDedup({ redis, windowMs })` remembers about which events are done. A false positive loses an event.',
  },
  split: {
    type: '(delivery) => items | Promise<items>',
    rule: aFunction,
    meaning:
      'Finds the events in a message that holds several (at most 10,000). Each item is an event of its own: key, attempts, dead letter.',
  },
  on: {
    type: '{ [type]: { handler, schema?, eventKey?, retry?, deadlineMs? } }',
    rule: {
      expected: 'an object with a handler for each type of message',
      accepts: (value) =>
        typeof value === 'object' && value !== null && Object.keys(value).length > 0,
      remedy: "Write `on: { 'order.placed': { schema, handler } }`.",
    },
    meaning:
      'In place of the handler and `schema`: [what to do with each type of message](messages.md#several-types-of-message). An option that is left out there is that of the guard.',
  },
  type: {
    type: 'Resolver | Resolver[]',
    defaultText: '[where senders write it](messages.md#several-types-of-message)',
    rule: {
      ...resolvers,
      remedy:
        "A header is `header('x-type')`, a field of the payload `({ payload }) => payload.type`.",
    },
    meaning:
      'With `on`: the type of a message. The first resolver that finds one wins. It is no part of the identity of the event.',
  },
  unknown: {
    type: "'dead-letter' | 'ack' | 'skip'",
    default: 'dead-letter',
    rule: oneOf('dead-letter', 'ack', 'skip'),
    meaning:
      "With `on`: what happens to a message of another type, or of none. 'ack' writes one warning for each type, 'skip' writes none.",
  },
  schema: {
    type: 'StandardSchemaV1<unknown, Payload>',
    rule: standardSchema,
    meaning:
      'Checks and types `event.payload` (zod, valibot, arktype, …). A payload that does not match is dead-lettered.',
  },
  decode: {
    type: '(body, delivery) => Decoded | Promise<Decoded>',
    defaultText: 'JSON in UTF-8; an empty body is null',
    rule: aFunction,
    meaning:
      'Turns the body into a value. If it throws, the message is read again with back-off, and dead-lettered when the attempts are spent; an `InvalidPayloadError` or a `SyntaxError` dead-letters it at once. Invalid UTF-8 is refused.',
  },
  maxInflatedBytes: {
    type: 'integer',
    unit: 'bytes',
    default: 16 * 1024 * 1024,
    rule: integer(0, 1024 * 1024 * 1024, 'It counts bytes of one body.'),
    meaning:
      'Most bytes of a body whose content encoding (`gzip`, `deflate`, `br`) was removed before `decode`. A larger one is dead-lettered. 0: bodies are not inflated.',
  },
  skip: {
    type: '(delivery) => boolean',
    rule: aFunction,
    meaning:
      'Messages for which it returns true are acknowledged without a record, before schema and key are read.',
  },
  eventKey: {
    type: 'Resolver | Resolver[]',
    defaultText:
      '[cloudEventKey(), idempotencyKeyHeader(), snsKey(), eventBridgeKey(), recordKey()]',
    rule: resolvers,
    meaning:
      'Identity of the event, as its producer means it. The first resolver that finds one wins. No id of the broker: when a producer sends an event again, the copy gets a new one.',
  },
  tenant: {
    type: 'Resolver',
    rule: aFunction,
    meaning:
      'Keys are unique per tenant. If the option is set and finds no tenant, the key counts as missing.',
  },
  orderingKey: {
    type: 'Resolver',
    defaultText: "the broker's: record key, message group",
    rule: aFunction,
    meaning:
      'Events with the same ordering key run one after the other, in delivery order. Whether later ones wait for a deferred one depends on the broker: [order](guarantees.md#order).',
  },
  fingerprint: {
    type: "'body' | 'none' | (payload) => unknown",
    default: 'body',
    rule: either(oneOf('body', 'none'), aFunction),
    meaning:
      "What is compared to tell a duplicate from a conflict (another payload under a used key). 'body' is the decoded body, and of an envelope what its producer wrote. Set a function if producers stamp each send ('sentAt').",
  },
  transaction: {
    type: "'each' | 'batch'",
    default: 'each',
    rule: oneOf('each', 'batch'),
    meaning:
      "With an inbox: one transaction per event, or one for all received events, which is bisected when one fails. 'batch' is several times faster if events do not compete for the same rows.",
  },
  concurrency: {
    type: 'integer',
    unit: 'handlers',
    default: 8,
    rule: integer(1, 1_000, 'It counts handlers that run at the same time.'),
    meaning:
      'Handlers (transactions) at the same time. With an inbox and `each`, adapters hand over up to twice as many quick events. Refused if the pool cannot carry it and two spare connections; the default is lowered.',
  },
  deadlineMs: {
    type: 'integer',
    unit: MS,
    default: 60 * SECOND_MS,
    rule: milliseconds(1, 12 * HOUR_MS),
    meaning:
      'Longest run of a handler. After it, the signal aborts, the transaction is rolled back and `tx` refuses. The run counts as failed.',
  },
  'retry.attempts': {
    type: 'integer',
    unit: 'runs',
    default: 10,
    rule: integer(1, 1_000, 'It counts runs of the handler, the first one included.'),
    meaning:
      'Runs of the handler, crashes included, before the event is dead-lettered. Also reads of a message that fail. Outages of the stores cost no attempt.',
  },
  'retry.baseMs': {
    type: 'integer',
    unit: MS,
    default: SECOND_MS,
    rule: milliseconds(0, 12 * HOUR_MS),
    meaning:
      'Longest wait after the first failure. It doubles with each further failure. Each wait is between half of that time and the whole.',
  },
  'retry.maxMs': {
    type: 'integer',
    unit: MS,
    default: 5 * MINUTE_MS,
    rule: milliseconds(0, 12 * HOUR_MS),
    meaning: 'Longest wait between two attempts, `RetryableError.afterMs` included.',
  },
  isFatal: {
    type: '(error) => boolean',
    rule: aFunction,
    meaning:
      'Errors of other libraries that retries cannot cure. If it returns true, the event is dead-lettered at once, as with FatalError.',
  },
  dedupWindowMs: {
    type: 'integer',
    unit: MS,
    default: 15 * DAY_MS,
    rule: milliseconds(1_000, 3_650 * DAY_MS),
    meaning:
      'How long a done event is remembered. It must be longer than the broker can take to bring a message back; adapters check this at start.',
  },
  leaseMs: {
    type: 'integer',
    unit: MS,
    default: 30 * SECOND_MS,
    rule: milliseconds(1_000, 12 * HOUR_MS),
    meaning:
      "Time limit of a claim, on the store's clock; renewed at a third of it while the handler runs. After a crash no other process takes the event over sooner.",
  },
  claimWaitMs: {
    type: 'integer',
    unit: MS,
    default: 250,
    rule: milliseconds(1, 60_000),
    meaning:
      'Longest wait for an event that another process is running, before the delivery is deferred.',
  },
  groupConcurrency: {
    type: '{ by, max }',
    rule: groups,
    meaning:
      'At most `max` events of one group run at once in a process, and groups take turns. `by: ({ payload }) => payload.tenant` names the group; an event without one is not bounded. Not for shared transactions. [Fair shares](operations.md#fair-shares).',
  },
  maxDefers: {
    type: 'integer',
    unit: 'deferrals',
    default: 100,
    rule: integer(0, 1_000_000, 'It counts deferrals of one event.'),
    meaning:
      'How often a handler may defer one event with `context.defer` or `context.pauseFor`. Each further deferral counts as a failed attempt. 100: an event that is deferred each time ends too. [Coming back later](operations.md#coming-back-later).',
  },
  onMissingKey: {
    type: "'dead-letter' | 'position' | 'unguarded'",
    default: 'dead-letter',
    rule: oneOf('dead-letter', 'position', 'unguarded'),
    meaning:
      'For a message without a key: dead-letter it, use its position in the broker as key, or run it without a guard. A position does not detect copies that the producer sends.',
  },
  onConflict: {
    type: "'dead-letter' | 'ack' | 'throw'",
    default: 'dead-letter',
    rule: oneOf('dead-letter', 'ack', 'throw'),
    meaning:
      'For another payload under a used key: dead-letter it, acknowledge it, or (in tests) retry it as a failure.',
  },
  afterCommit: {
    type: '(result, event, { duplicate }) => void | Promise<void>',
    rule: aFunction,
    meaning:
      'Called after the commit and before the message is acknowledged, at least once, also for each duplicate. If it throws, the delivery is deferred and the event does not run again.',
  },
  seal: {
    type: '{ seal, open }',
    rule: hooks,
    meaning:
      'Encrypts what is stored of messages: dead letters, refused and parked messages, results, messages of the outbox. Whoever operates on dead letters and whoever runs the relay needs it too. [Sealed at rest](sealing.md).',
  },
  onTakeover: {
    type: "'retry' | 'dead-letter' | (event, context) => Takeover",
    rule: either(oneOf('retry', 'dead-letter'), aFunction),
    meaning:
      'Without an inbox: what to do when an earlier attempt may have had its effect. Required with leases alone, refused beside an inbox.',
  },
  onStoreDown: {
    type: "'wait' | 'unguarded'",
    default: 'wait',
    rule: oneOf('wait', 'unguarded'),
    meaning:
      'Without an inbox: wait for the lease store, or run without it. Without the store a duplicate looks like a first delivery.',
  },
  observe: {
    type: '(record) => void',
    rule: aFunction,
    meaning:
      'Called once per delivery when its settlement is known. `meterObserver()` of `@onceward/otel` is one, for [metrics](telemetry.md).',
  },
  logger: {
    type: 'Logger',
    defaultText: 'the terminal or JSON',
    rule: objectWith('a logger', 'debug', 'info', 'warn', 'error'),
    meaning:
      'A pino instance or `console`. By default lines for a person on a terminal; elsewhere, and with `NODE_ENV=production`, a line of JSON each, in the format of pino.',
  },
  logKeys: {
    type: 'boolean',
    defaultText: 'false',
    rule: aBoolean,
    meaning:
      'Adds the key of the event as `key` to the log lines of onceward and of handlers. Keys are often order numbers or e-mail addresses.',
  },
}

/** One row of the option table in docs/configuration.md, which is rendered from {@link OPTION_DOCS}. */
export interface OptionDoc {
  /** As the user writes it, `retry.attempts` for nested ones. */
  readonly name: string
  readonly type: string
  readonly unit?: string | undefined
  /** Undefined: the option is required, or doing without it is the default. */
  readonly default?: string | number | undefined
  readonly meaning: string
}

type AnyRow = Omit<OptionDoc, 'name'> & { readonly rule: Rule; readonly defaultText?: string }

const ROWS: readonly (readonly [string, AnyRow])[] = Object.entries<AnyRow>(OPTIONS)

/** All options of `createGuard`, in the order in which one reads about them. */
export const OPTION_DOCS: readonly OptionDoc[] = ROWS.map(
  ([name, { rule: _rule, defaultText, ...doc }]) => ({
    name,
    ...doc,
    default: doc.default ?? defaultText,
  }),
)

/** One rule per option of `createGuard`; nested ones as `retry.attempts`. Only tests give it a `runtime`. */
export const OPTION_RULES: Readonly<Record<string, Rule>> = {
  ...Object.fromEntries(ROWS.map(([name, { rule }]) => [name, rule])),
  runtime: objectWith('a runtime', 'now', 'monotonic', 'random', 'uuid', 'setTimer'),
}

/**
 * Every default of a guard. The unit of each stands in `OPTION_DOCS`, from which docs/configuration.md is rendered.
 */
export const DEFAULTS: Defaults = frozenDefaults()

function frozenDefaults(): Defaults {
  const flat: Record<string, unknown> = {}
  const retry: Record<string, unknown> = {}
  for (const [name, { default: value }] of ROWS) {
    if (value === undefined) continue
    if (name.startsWith('retry.')) retry[name.slice('retry.'.length)] = value
    else flat[name] = value
  }
  // `OptionTable` has a default of the right type for each member of `Defaults`.
  return Object.freeze({ ...flat, retry: Object.freeze(retry) }) as unknown as Defaults
}

/** The options that have a default: each as given, or else its default. */
export function withDefaults(given: Partial<Record<keyof Defaults, unknown>>): DefaultedOptions {
  return merged(DEFAULTS, given) as DefaultedOptions
}

function merged(defaults: object, given: object): object {
  return Object.freeze(
    Object.fromEntries(
      Object.entries(defaults).map(([name, value]) => {
        const own: unknown = Reflect.get(given, name)
        return [name, typeof value === 'object' ? merged(value, Object(own)) : (own ?? value)]
      }),
    ),
  )
}
