/** The release of OpenTelemetry's semantic conventions whose names are used here. */
export const CONVENTIONS_VERSION = '1.45.0'

/** Names of the conventions. `names.test.ts` compares them with the package of that release. */
export const CONVENTIONS = {
  system: 'messaging.system.name',
  destination: 'messaging.destination.name',
  partition: 'messaging.destination.partition.id',
  consumer: 'messaging.consumer.group.name',
  operation: 'messaging.operation.name',
  operationType: 'messaging.operation.type',
  batchSize: 'messaging.batch.message_count',
  kafkaOffset: 'kafka.offset',
  errorType: 'error.type',
  processDuration: 'messaging.process.duration',
} as const

/** Values of `messaging.system.name`, by the broker of a delivery. Other brokers keep their own name. */
export const SYSTEMS: Readonly<Record<string, string>> = {
  kafka: 'kafka',
  sqs: 'aws.sqs',
  amqp: 'rabbitmq',
}

/** The operation, its type, and the first word of a span's name. */
export const PROCESS = 'process'

/** Attributes of onceward. Every one of them has a closed set of values. */
export const OWN = {
  outcome: 'onceward.outcome',
  reason: 'onceward.reason',
  cause: 'onceward.cause',
  repeated: 'onceward.repeated',
  parked: 'onceward.parked',
  type: 'onceward.type',
  dependency: 'onceward.dependency',
  answer: 'onceward.answer',
  state: 'onceward.state',
  table: 'onceward.table',
  consumption: 'onceward.consumption',
  dedup: 'onceward.dedup',
  destination: 'onceward.outbox.destination',
  /** On spans only. */
  eventId: 'onceward.event.id',
  attempt: 'onceward.attempt',
} as const

/** Replaces a value when there are too many of them, as in the conventions. */
export const OTHER = '_OTHER'

export interface Metric {
  readonly name: string
  readonly kind: 'counter' | 'histogram' | 'gauge' | 'observable-counter'
  readonly unit: string
  readonly meaning: string
  readonly attributes: readonly string[]
  /** Upper bounds of a histogram's buckets. */
  readonly buckets?: readonly number[]
}

type Table<Name extends string> = Readonly<Record<Name, Metric>>

const { consumer, destination, errorType, operation, system } = CONVENTIONS
const FROM = [system, destination, consumer]
/** With the type of the message, of guards with `on`. */
const OF_TYPE = [...FROM, OWN.type]
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]

/** What `meterObserver()` records for each delivery. */
export const DELIVERY_METRICS: Table<
  'processDuration' | 'deliveries' | 'attempts' | 'claim' | 'commit' | 'age'
> = {
  processDuration: {
    name: CONVENTIONS.processDuration,
    kind: 'histogram',
    unit: 's',
    meaning:
      'Time in the handler, of the conventions. A batch handler’s time counts for each of its events.',
    attributes: [operation, ...OF_TYPE, errorType],
    buckets: SECONDS,
  },
  deliveries: {
    name: 'onceward.deliveries',
    kind: 'counter',
    unit: '{delivery}',
    meaning:
      'Settled deliveries. The outcome is `ack`, `defer`, `dead-letter` or `abandon`, with the reason and the cause of the settlement. The cause of a duplicate is `redelivered` (by the broker) or `copy` (another message).',
    attributes: [...OF_TYPE, OWN.outcome, OWN.reason, OWN.cause, OWN.repeated, OWN.parked],
  },
  attempts: {
    name: 'onceward.attempts',
    kind: 'histogram',
    unit: '{attempt}',
    meaning: 'Number of the attempt, for each run of the handler.',
    attributes: [...OF_TYPE, OWN.outcome],
    buckets: [1, 2, 3, 5, 10, 20, 50],
  },
  claim: {
    name: 'onceward.claim.duration',
    kind: 'histogram',
    unit: 's',
    meaning: 'Time until the stores gave the event to a run: the lease, and `BEGIN` with the row.',
    attributes: OF_TYPE,
    buckets: SECONDS,
  },
  commit: {
    name: 'onceward.commit.duration',
    kind: 'histogram',
    unit: 's',
    meaning: 'Time until `COMMIT` was answered.',
    attributes: OF_TYPE,
    buckets: SECONDS,
  },
  age: {
    name: 'onceward.message.age',
    kind: 'histogram',
    unit: 's',
    meaning:
      'Age of the message when it was settled, by the clock of its producer. Retries make it grow.',
    attributes: OF_TYPE,
    buckets: [0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400],
  },
}

/** What `meterObserver()` reads of its guards when the metrics are collected. */
export const GUARD_METRICS: Table<
  | 'inHand'
  | 'concurrency'
  | 'incomplete'
  | 'breaker'
  | 'paused'
  | 'outage'
  | 'leases'
  | 'renewals'
  | 'pool'
  | 'poolMax'
  | 'poolWaiting'
> = {
  inHand: {
    name: 'onceward.guard.in_hand',
    kind: 'gauge',
    unit: '{delivery}',
    meaning: 'Deliveries that the guard has not settled yet.',
    attributes: [consumer],
  },
  concurrency: {
    name: 'onceward.guard.concurrency',
    kind: 'gauge',
    unit: '{handler}',
    meaning: 'Handlers that may run at the same time.',
    attributes: [consumer],
  },
  incomplete: {
    name: 'onceward.guard.incomplete_events',
    kind: 'observable-counter',
    unit: '{event}',
    meaning:
      'Events that are done although a statement of their handler came after the handler had returned: it is missing in their effect.',
    attributes: [consumer],
  },
  breaker: {
    name: 'onceward.guard.breaker',
    kind: 'gauge',
    unit: '1',
    meaning: '1 while the breaker is open: a store failed, and deliveries are deferred.',
    attributes: [consumer],
  },
  paused: {
    name: 'onceward.guard.paused',
    kind: 'gauge',
    unit: '1',
    meaning: '1 while the consumer is paused, by an operator, a handler or its guard.',
    attributes: [consumer],
  },
  outage: {
    name: 'onceward.guard.outage',
    kind: 'gauge',
    unit: '1',
    meaning: '1 for each dependency that failed when it was last asked.',
    attributes: [consumer, OWN.dependency],
  },
  leases: {
    name: 'onceward.leases',
    kind: 'gauge',
    unit: '{lease}',
    meaning: 'Leases that are held and renewed.',
    attributes: [consumer],
  },
  renewals: {
    name: 'onceward.lease.renewals',
    kind: 'observable-counter',
    unit: '{renewal}',
    meaning:
      'Renewals of leases: `held`, `lost` to another owner, or `failed` because the store did not answer.',
    attributes: [consumer, OWN.answer],
  },
  pool: {
    name: 'onceward.pool.connections',
    kind: 'gauge',
    unit: '{connection}',
    meaning:
      'Connections of the inbox’s pool, `used` or `idle`. Guards that share a pool all show it.',
    attributes: [consumer, OWN.state],
  },
  poolMax: {
    name: 'onceward.pool.max',
    kind: 'gauge',
    unit: '{connection}',
    meaning: 'The largest number of connections of that pool.',
    attributes: [consumer],
  },
  poolWaiting: {
    name: 'onceward.pool.waiting',
    kind: 'gauge',
    unit: '{request}',
    meaning: 'Callers that wait for a connection of that pool.',
    attributes: [consumer],
  },
}

/** What `meterObserver()` reads of the tables, at most once in `figuresEveryMs`. */
export const TABLE_METRICS: Table<
  'deadLetters' | 'parked' | 'parkedAge' | 'workerSilence' | 'tableSize' | 'tableRows'
> = {
  deadLetters: {
    name: 'onceward.dead_letters',
    kind: 'gauge',
    unit: '{dead letter}',
    meaning:
      'Dead letters that wait for an operator: those among the newest 10,000 of all consumers.',
    attributes: [consumer, OWN.reason],
  },
  parked: {
    name: 'onceward.parked',
    kind: 'gauge',
    unit: '{message}',
    meaning:
      'Stored messages that wait: replayed events, accepted webhooks, and dead letters that wait for their place.',
    attributes: [consumer],
  },
  parkedAge: {
    name: 'onceward.parked.age',
    kind: 'gauge',
    unit: 's',
    meaning: 'How long the first of them has been due.',
    attributes: [consumer],
  },
  workerSilence: {
    name: 'onceward.worker.silence',
    kind: 'gauge',
    unit: 's',
    meaning:
      'Time since the last heartbeat of any worker of a consumer, by the clock of the database. Workers send one every 30 s. Every process tells it of all consumers of its tables.',
    attributes: [consumer],
  },
  tableSize: {
    name: 'onceward.table.size',
    kind: 'gauge',
    unit: 'By',
    meaning:
      'Size of a table with its indexes. Consumers share the tables, so all of them show it.',
    attributes: [consumer, OWN.table],
  },
  tableRows: {
    name: 'onceward.table.rows',
    kind: 'gauge',
    unit: '{row}',
    meaning: 'Rows of a table, as the server estimates them.',
    attributes: [consumer, OWN.table],
  },
}

/** What `meterConsumptions()` and the own `/metrics` of `healthServer()` read of `health()`. */
export const CONSUMPTION_METRICS: Table<
  'state' | 'inFlight' | 'idle' | 'settleFailures' | 'outage'
> = {
  state: {
    name: 'onceward.consumption.state',
    kind: 'gauge',
    unit: '1',
    meaning: '1 for the state of the consumer, 0 for the others.',
    attributes: [OWN.consumption, OWN.state],
  },
  inFlight: {
    name: 'onceward.consumption.in_flight',
    kind: 'gauge',
    unit: '{message}',
    meaning: 'Messages received and not settled yet.',
    attributes: [OWN.consumption],
  },
  idle: {
    name: 'onceward.consumption.idle',
    kind: 'gauge',
    unit: 's',
    meaning:
      'Time since the broker last answered a receive, on Kafka also a heartbeat, or a message was last settled.',
    attributes: [OWN.consumption],
  },
  settleFailures: {
    name: 'onceward.consumption.settle_failures',
    kind: 'observable-counter',
    unit: '{settlement}',
    meaning: 'Settlements that the broker refused.',
    attributes: [OWN.consumption],
  },
  outage: {
    name: 'onceward.consumption.outage',
    kind: 'gauge',
    unit: '1',
    meaning: '1 for each dependency, the broker included, that failed when it was last asked.',
    attributes: [OWN.consumption, OWN.dependency],
  },
}

/** What `meterDedups()` reads of `falsePositives()`. */
export const DEDUP_METRICS: Table<'probes' | 'hits' | 'bound'> = {
  probes: {
    name: 'onceward.dedup.probes',
    kind: 'observable-counter',
    unit: '{probe}',
    meaning: 'Random ids that no event has, for which the dedup was asked.',
    attributes: [OWN.dedup],
  },
  hits: {
    name: 'onceward.dedup.hits',
    kind: 'observable-counter',
    unit: '{probe}',
    meaning:
      'How many of them it said to know. Divided by the probes: the share of new events that is lost.',
    attributes: [OWN.dedup],
  },
  bound: {
    name: 'onceward.dedup.bound',
    kind: 'gauge',
    unit: '1',
    meaning: 'The share that is not exceeded by design.',
    attributes: [OWN.dedup],
  },
}

/** What `meterOutbox()` reads of `figures()`. */
export const OUTBOX_METRICS: Table<'messages' | 'age' | 'served' | 'published' | 'failed'> = {
  messages: {
    name: 'onceward.outbox.messages',
    kind: 'gauge',
    unit: '{message}',
    meaning:
      'Messages in the outbox: `waiting` for a relay or behind one of their key, `delayed`, `refused` and tried again, `dead`. All relays of a database show the same.',
    attributes: [OWN.consumption, OWN.destination, OWN.state],
  },
  age: {
    name: 'onceward.outbox.age',
    kind: 'gauge',
    unit: 's',
    meaning: 'How long the oldest message that is neither dead nor delayed has waited; 0: none.',
    attributes: [OWN.consumption, OWN.destination],
  },
  served: {
    name: 'onceward.outbox.served',
    kind: 'gauge',
    unit: '1',
    meaning:
      '1: a relay that runs has the destination. 0: none has it, so its messages wait until one is started.',
    attributes: [OWN.consumption, OWN.destination],
  },
  published: {
    name: 'onceward.outbox.published',
    kind: 'observable-counter',
    unit: '{message}',
    meaning: 'Messages that this relay has published: the broker has confirmed them.',
    attributes: [OWN.consumption, OWN.destination],
  },
  failed: {
    name: 'onceward.outbox.failed',
    kind: 'observable-counter',
    unit: '{call}',
    meaning: 'Calls in which the destination has refused a message.',
    attributes: [OWN.consumption, OWN.destination],
  },
}

/** Every metric, as docs/telemetry.md lists them. */
export const METRICS: readonly Metric[] = [
  ...Object.values(DELIVERY_METRICS),
  ...Object.values(GUARD_METRICS),
  ...Object.values(TABLE_METRICS),
  ...Object.values(CONSUMPTION_METRICS),
  ...Object.values(DEDUP_METRICS),
  ...Object.values(OUTBOX_METRICS),
]
