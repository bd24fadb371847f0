import { DEFAULTS } from './defaults.ts'

/** One row of the option table in docs/configuration.md, which is rendered from {@link OPTION_DOCS}. */
export interface OptionDoc {
  /** As the user writes it, `retry.attempts` for nested ones. */
  readonly name: string
  readonly type: string
  readonly unit?: string | undefined
  /** Undefined: the option is required, or doing without it is the default; the reason says which. */
  readonly default?: string | number | undefined
  readonly meaning: string
  readonly reason: string
}

const MS = 'milliseconds'

/** All options of `createGuard`, in the order in which one reads about them. */
export const OPTION_DOCS: readonly OptionDoc[] = [
  {
    name: 'consumer',
    type: 'string',
    meaning:
      'Name of the logical consumer: 1–128 of `A–Z a–z 0–9 . _ : -`. Part of the identity of every event.',
    reason:
      'Required. Two consumers of one event each get its effect; renaming a consumer makes every event new to it.',
  },
  {
    name: 'inbox',
    type: 'Inbox<Tx>',
    meaning:
      'The durable guard: `pgInbox(pool)`, `kyselyInbox(db)` or, in unit tests, `memoryInbox()`.',
    reason:
      'Required unless `leases` is given. Only an inbox makes the committed effect exactly once.',
  },
  {
    name: 'leases',
    type: 'LeaseStore',
    meaning:
      'Where live claims are: beside an inbox the fast path, alone the guard of effects outside Postgres.',
    reason: 'None by default: the smallest set-up is Postgres alone.',
  },
  {
    name: 'schema',
    type: 'StandardSchemaV1<unknown, Payload>',
    meaning:
      'Checks and types `event.payload` (zod, valibot, arktype, …). What does not fit is a dead letter.',
    reason: 'None by default: the payload is what `decode` returned.',
  },
  {
    name: 'decode',
    type: '(body, delivery) => Decoded | Promise<Decoded>',
    default: 'JSON in UTF-8; an empty body is null',
    meaning: 'Makes a value of the body. What it throws makes the message a dead letter.',
    reason:
      'Most events are JSON. Invalid UTF-8 is refused, or two different bodies would look alike.',
  },
  {
    name: 'skip',
    type: '(delivery) => boolean',
    meaning:
      'Messages to acknowledge without a trace, decided before the schema and the key are looked at.',
    reason: 'None by default: nothing is skipped.',
  },
  {
    name: 'eventKey',
    type: 'Resolver | Resolver[]',
    default: '[cloudEventKey(), idempotencyKeyHeader()]',
    meaning:
      'Identity of the event, as its producer means it; the first resolver that finds one wins.',
    reason:
      'Both defaults are set by the producer on purpose. Ids of brokers are not: a producer that sends again makes new ones.',
  },
  {
    name: 'tenant',
    type: 'Resolver',
    meaning:
      'Keys are unique per tenant. Given, it must find one: without it the key counts as missing.',
    reason: 'None by default: one name space per consumer.',
  },
  {
    name: 'orderingKey',
    type: 'Resolver',
    default: "the broker's: record key, message group",
    meaning:
      'Events with an equal ordering key run in delivery order, and none overtakes one that waits.',
    reason: 'The producer chose that key for the order of its events.',
  },
  {
    name: 'fingerprint',
    type: "'body' | 'none' | (payload) => unknown",
    default: DEFAULTS.fingerprint,
    meaning:
      'What is compared to tell a duplicate from a conflict: another payload under a key that was used before.',
    reason:
      "The decoded body before the schema, so that a new default in the schema does not turn redeliveries into conflicts. Give a function when producers stamp each send ('sentAt').",
  },
  {
    name: 'transaction',
    type: "'each' | 'batch'",
    default: DEFAULTS.transaction,
    meaning:
      'With an inbox: one transaction per event, or one for the events in hand, split when one fails.',
    reason:
      "'each' keeps failures apart. 'batch' is several times faster where events do not fight over the same rows.",
  },
  {
    name: 'concurrency',
    type: 'integer',
    unit: 'handlers',
    default: DEFAULTS.concurrency,
    meaning: 'Handlers (transactions) at a time in this guard.',
    reason:
      'Below the 10 connections of a default `pg` pool by the two kept for attempts and dead letters. More than the pool carries is a ConfigurationError when you chose it, and lowered when you did not.',
  },
  {
    name: 'deadlineMs',
    type: 'integer',
    unit: MS,
    default: DEFAULTS.deadlineMs,
    meaning:
      'Longest run of a handler. Past it, its signal aborts, its transaction is rolled back and `tx` refuses.',
    reason:
      'Always finite, or one hung call holds a connection and a key for ever. A passed deadline is a failure.',
  },
  {
    name: 'retry.attempts',
    type: 'integer',
    unit: 'runs',
    default: DEFAULTS.retry.attempts,
    meaning: 'Runs of the handler, crashes included, before the event is a dead letter.',
    reason:
      'With the default backoff, five attempts ride out a fault of up to 15 seconds. Outages of the stores themselves count nothing.',
  },
  {
    name: 'retry.baseMs',
    type: 'integer',
    unit: MS,
    default: DEFAULTS.retry.baseMs,
    meaning: 'Longest wait after the first failure; it doubles with each further one. Full jitter.',
    reason:
      'Most faults of a dependency last seconds; consumers that failed together must not come back together.',
  },
  {
    name: 'retry.maxMs',
    type: 'integer',
    unit: MS,
    default: DEFAULTS.retry.maxMs,
    meaning: 'Longest wait between two attempts, `RetryableError.afterMs` included.',
    reason:
      'Long enough to spare a dependency that is down, short enough for somebody who waits for the result.',
  },
  {
    name: 'isFatal',
    type: '(error) => boolean',
    meaning:
      'Errors of other libraries that can never succeed: a dead letter at once, as if FatalError was thrown.',
    reason: 'None by default: every error but FatalError is tried again.',
  },
  {
    name: 'dedupWindowMs',
    type: 'integer',
    unit: MS,
    default: DEFAULTS.dedupWindowMs,
    meaning: 'How long a done event is remembered.',
    reason:
      'One day more than the longest retention of SQS (14 days). It must exceed every way the broker can bring a message back, which adapters check at start.',
  },
  {
    name: 'leaseMs',
    type: 'integer',
    unit: MS,
    default: DEFAULTS.leaseMs,
    meaning:
      "Time limit of a claim, on the store's clock; renewed at a third of it while the handler runs.",
    reason:
      'After a crash, nobody takes the event over sooner. Two renewals may be lost before the lease is.',
  },
  {
    name: 'claimWaitMs',
    type: 'integer',
    unit: MS,
    default: DEFAULTS.claimWaitMs,
    meaning:
      'Longest wait for an event that another process holds, before the delivery is deferred.',
    reason: 'Longer than most transactions, too short for waiting copies to drain the pool.',
  },
  {
    name: 'onMissingKey',
    type: "'dead-letter' | 'position' | 'unguarded'",
    default: DEFAULTS.onMissingKey,
    meaning:
      'A message without a key: dead letter, its place in the broker as key, or run without any guard.',
    reason:
      "The position says nothing of copies the producer sends: 'position' and 'unguarded' are decisions.",
  },
  {
    name: 'onConflict',
    type: "'dead-letter' | 'ack' | 'throw'",
    default: DEFAULTS.onConflict,
    meaning:
      'Another payload under a used key: dead letter, acknowledge, or (in tests) come back as a failure.',
    reason:
      'It is a mistake of the producer or of the key, and the second payload may be the right one.',
  },
  {
    name: 'onDuplicate',
    type: '(event, result) => void | Promise<void>',
    meaning: 'Called for a duplicate with the stored result, before it is acknowledged.',
    reason: 'None by default: a duplicate is acknowledged in silence.',
  },
  {
    name: 'onTakeover',
    type: "'retry' | 'dead-letter' | (event, context) => Takeover",
    meaning: 'Without an inbox: what to do when an attempt before may have had its effect.',
    reason:
      'Required with leases alone, refused beside an inbox: only you know whether the effect can be looked up or repeated.',
  },
  {
    name: 'onStoreDown',
    type: "'wait' | 'unguarded'",
    default: DEFAULTS.onStoreDown,
    meaning: 'Without an inbox: wait for the lease store, or run without it.',
    reason: 'Fail closed: without the store a duplicate cannot be told from a first delivery.',
  },
  {
    name: 'observe',
    type: '(record) => void',
    meaning: 'Called once per delivery when its settlement is known: metrics.',
    reason: 'None by default.',
  },
  {
    name: 'logger',
    type: 'Logger',
    default: 'process warnings',
    meaning: 'A pino instance or `console`. Keys appear hashed.',
    reason:
      'Without one, warnings and errors become Node process warnings, so that a failing handler is not silent.',
  },
  {
    name: 'runtime',
    type: 'Runtime',
    default: 'systemRuntime',
    meaning: 'Time, randomness and ids, for simulations.',
    reason: 'Tests run the engine under a clock of their own.',
  },
]
