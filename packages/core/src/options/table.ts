import type { Defaults, GuardOptionName } from './options.ts'
import {
  aFunction,
  consumerName,
  either,
  integer,
  milliseconds,
  objectWith,
  oneOf,
  type Rule,
  resolvers,
  standardSchema,
} from './rules.ts'

interface Row {
  readonly type: string
  readonly unit?: string
  readonly rule: Rule
  /** What the option is. */
  readonly meaning: string
  /** Why this default, or why there is none. */
  readonly reason: string
}

type FlatDefaults = Omit<Defaults, 'retry'> & {
  readonly [Name in keyof Defaults['retry'] as `retry.${Name}`]: Defaults['retry'][Name]
}

/** A default that is no plain value is a text for the documents; `guard/resolve-options.ts` has the value. */
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
      'Name of the logical consumer: 1–128 of `A–Z a–z 0–9 . _ : -`. Part of the identity of every event.',
    reason:
      'Required. Two consumers of one event each get its effect; renaming a consumer makes every event new to it.',
  },
  inbox: {
    type: 'Inbox<Tx>',
    rule: objectWith('an inbox', 'open'),
    meaning:
      'The durable guard: `pgInbox(pool)`, `kyselyInbox(db)` or, in unit tests, `memoryInbox()`.',
    reason:
      'Required unless `leases` is given. Only an inbox makes the committed effect exactly once.',
  },
  leases: {
    type: 'LeaseStore',
    rule: objectWith('a lease store', 'claim', 'renew', 'complete', 'fail', 'release', 'bury'),
    meaning:
      'Where live claims are: beside an inbox the fast path, alone the guard of effects outside Postgres.',
    reason: 'None by default: the smallest set-up is Postgres alone.',
  },
  schema: {
    type: 'StandardSchemaV1<unknown, Payload>',
    rule: standardSchema,
    meaning:
      'Checks and types `event.payload` (zod, valibot, arktype, …). What does not fit is a dead letter.',
    reason: 'None by default: the payload is what `decode` returned.',
  },
  decode: {
    type: '(body, delivery) => Decoded | Promise<Decoded>',
    defaultText: 'JSON in UTF-8; an empty body is null',
    rule: aFunction,
    meaning: 'Makes a value of the body. What it throws makes the message a dead letter.',
    reason:
      'Most events are JSON. Invalid UTF-8 is refused, or two different bodies would look alike.',
  },
  skip: {
    type: '(delivery) => boolean',
    rule: aFunction,
    meaning:
      'Messages to acknowledge without a trace, decided before the schema and the key are looked at.',
    reason: 'None by default: nothing is skipped.',
  },
  eventKey: {
    type: 'Resolver | Resolver[]',
    defaultText: '[cloudEventKey(), idempotencyKeyHeader()]',
    rule: resolvers,
    meaning:
      'Identity of the event, as its producer means it; the first resolver that finds one wins.',
    reason:
      'Both defaults are set by the producer on purpose. Ids of brokers are not: a producer that sends again makes new ones.',
  },
  tenant: {
    type: 'Resolver',
    rule: aFunction,
    meaning:
      'Keys are unique per tenant. Given, it must find one: without it the key counts as missing.',
    reason: 'None by default: one name space per consumer.',
  },
  orderingKey: {
    type: 'Resolver',
    defaultText: "the broker's: record key, message group",
    rule: aFunction,
    meaning:
      'Events with an equal ordering key run in delivery order, and none overtakes one that waits.',
    reason: 'The producer chose that key for the order of its events.',
  },
  fingerprint: {
    type: "'body' | 'none' | (payload) => unknown",
    default: 'body',
    rule: either(oneOf('body', 'none'), aFunction),
    meaning:
      'What is compared to tell a duplicate from a conflict: another payload under a key that was used before.',
    reason:
      "The decoded body before the schema, so that a new default in the schema does not turn redeliveries into conflicts. Give a function when producers stamp each send ('sentAt').",
  },
  transaction: {
    type: "'each' | 'batch'",
    default: 'each',
    rule: oneOf('each', 'batch'),
    meaning:
      'With an inbox: one transaction per event, or one for the events in hand, split when one fails.',
    reason:
      "'each' keeps failures apart. 'batch' is several times faster where events do not fight over the same rows.",
  },
  concurrency: {
    type: 'integer',
    unit: 'handlers',
    default: 8,
    rule: integer(1, 1_000, 'It counts handlers that run at the same time.'),
    meaning: 'Handlers (transactions) at a time in this guard.',
    reason:
      'Below the 10 connections of a default `pg` pool by the two kept for attempts and dead letters. More than the pool carries is a ConfigurationError when you chose it, and lowered when you did not.',
  },
  deadlineMs: {
    type: 'integer',
    unit: MS,
    default: 60 * SECOND_MS,
    rule: milliseconds(1, 12 * HOUR_MS),
    meaning:
      'Longest run of a handler. Past it, its signal aborts, its transaction is rolled back and `tx` refuses.',
    reason:
      'Always finite, or one hung call holds a connection and a key for ever. A passed deadline is a failure.',
  },
  'retry.attempts': {
    type: 'integer',
    unit: 'runs',
    default: 5,
    rule: integer(1, 1_000, 'It counts runs of the handler, the first one included.'),
    meaning: 'Runs of the handler, crashes included, before the event is a dead letter.',
    reason:
      'With the default backoff, five attempts ride out a fault of up to 15 seconds. Outages of the stores themselves count nothing.',
  },
  'retry.baseMs': {
    type: 'integer',
    unit: MS,
    default: SECOND_MS,
    rule: milliseconds(0, 12 * HOUR_MS),
    meaning: 'Longest wait after the first failure; it doubles with each further one. Full jitter.',
    reason:
      'Most faults of a dependency last seconds; consumers that failed together must not come back together.',
  },
  'retry.maxMs': {
    type: 'integer',
    unit: MS,
    default: 5 * MINUTE_MS,
    rule: milliseconds(0, 12 * HOUR_MS),
    meaning: 'Longest wait between two attempts, `RetryableError.afterMs` included.',
    reason:
      'Long enough to spare a dependency that is down, short enough for somebody who waits for the result.',
  },
  isFatal: {
    type: '(error) => boolean',
    rule: aFunction,
    meaning:
      'Errors of other libraries that can never succeed: a dead letter at once, as if FatalError was thrown.',
    reason: 'None by default: every error but FatalError is tried again.',
  },
  dedupWindowMs: {
    type: 'integer',
    unit: MS,
    default: 15 * DAY_MS,
    rule: milliseconds(1_000, 3_650 * DAY_MS),
    meaning: 'How long a done event is remembered.',
    reason:
      'One day more than the longest retention of SQS (14 days). It must exceed every way the broker can bring a message back, which adapters check at start.',
  },
  leaseMs: {
    type: 'integer',
    unit: MS,
    default: 30 * SECOND_MS,
    rule: milliseconds(1_000, 12 * HOUR_MS),
    meaning:
      "Time limit of a claim, on the store's clock; renewed at a third of it while the handler runs.",
    reason:
      'After a crash, nobody takes the event over sooner. Two renewals may be lost before the lease is.',
  },
  claimWaitMs: {
    type: 'integer',
    unit: MS,
    default: 250,
    rule: milliseconds(1, 60_000),
    meaning:
      'Longest wait for an event that another process holds, before the delivery is deferred.',
    reason: 'Longer than most transactions, too short for waiting copies to drain the pool.',
  },
  onMissingKey: {
    type: "'dead-letter' | 'position' | 'unguarded'",
    default: 'dead-letter',
    rule: oneOf('dead-letter', 'position', 'unguarded'),
    meaning:
      'A message without a key: dead letter, its place in the broker as key, or run without any guard.',
    reason:
      "The position says nothing of copies the producer sends: 'position' and 'unguarded' are decisions.",
  },
  onConflict: {
    type: "'dead-letter' | 'ack' | 'throw'",
    default: 'dead-letter',
    rule: oneOf('dead-letter', 'ack', 'throw'),
    meaning:
      'Another payload under a used key: dead letter, acknowledge, or (in tests) come back as a failure.',
    reason:
      'It is a mistake of the producer or of the key, and the second payload may be the right one.',
  },
  onDuplicate: {
    type: '(event, result) => void | Promise<void>',
    rule: aFunction,
    meaning: 'Called for a duplicate with the stored result, before it is acknowledged.',
    reason: 'None by default: a duplicate is acknowledged in silence.',
  },
  onTakeover: {
    type: "'retry' | 'dead-letter' | (event, context) => Takeover",
    rule: either(oneOf('retry', 'dead-letter'), aFunction),
    meaning: 'Without an inbox: what to do when an attempt before may have had its effect.',
    reason:
      'Required with leases alone, refused beside an inbox: only you know whether the effect can be looked up or repeated.',
  },
  onStoreDown: {
    type: "'wait' | 'unguarded'",
    default: 'wait',
    rule: oneOf('wait', 'unguarded'),
    meaning: 'Without an inbox: wait for the lease store, or run without it.',
    reason: 'Fail closed: without the store a duplicate cannot be told from a first delivery.',
  },
  observe: {
    type: '(record) => void',
    rule: aFunction,
    meaning: 'Called once per delivery when its settlement is known: metrics.',
    reason: 'None by default.',
  },
  logger: {
    type: 'Logger',
    defaultText: 'process warnings',
    rule: objectWith('a logger', 'debug', 'info', 'warn', 'error'),
    meaning: 'A pino instance or `console`. Keys appear hashed.',
    reason:
      'Without one, warnings and errors become Node process warnings, so that a failing handler is not silent.',
  },
  runtime: {
    type: 'Runtime',
    defaultText: 'systemRuntime',
    rule: objectWith('a runtime', 'now', 'monotonic', 'random', 'uuid', 'setTimer'),
    meaning: 'Time, randomness and ids, for simulations.',
    reason: 'Tests run the engine under a clock of their own.',
  },
}
