import type { Consumption } from '@onceward/core'

/** The brokers that a proof can run on. */
export const PROVE_BROKERS = ['sqs', 'kafka', 'amqp', 'redis-streams', 'nats'] as const

/** One of {@link PROVE_BROKERS}. */
export type ProveBroker = (typeof PROVE_BROKERS)[number]

/** Where the consumer finds its messages, for each broker. `prove` has created the place, and removes it. */
export interface ProvePlaces {
  readonly sqs: {
    readonly queueUrl: string
    readonly deadLetterQueueUrl: string
  }
  readonly kafka: {
    readonly brokers: readonly string[]
    readonly topic: string
    readonly groupId: string
    readonly deadLetterTopic: string
  }
  readonly amqp: {
    readonly queue: string
    readonly deadLetterQueue: string
  }
  readonly 'redis-streams': {
    readonly stream: string
    readonly group: string
    readonly deadLetterStream: string
  }
  readonly nats: {
    readonly stream: string
    readonly consumer: string
    readonly deadLetterSubject: string
  }
}

/** What every place has. */
export interface ProveCommon {
  /** Connection string of the database, with the tables of onceward. */
  readonly databaseUrl: string
  /** A Redis for leases or effects; undefined where none was found or given. */
  readonly redisUrl?: string | undefined
  /** Address of the broker: the endpoint of SQS if it is no AWS, `host:9092`, `amqp://…`, `redis://…` or `nats://…`. */
  readonly brokerUrl: string
  /** A short lease, milliseconds. A consumer that sets `leaseMs: env.leaseMs` is proved sooner. */
  readonly leaseMs: number
}

/**
 * What `prove` gives the functions of its file. The environment variables that samples read (`DATABASE_URL`, `QUEUE_URL`,
 * `KAFKA_BROKERS`, `RABBITMQ_URL`, `REDIS_URL`, `NATS_URL`, …) say the same.
 *
 * @example
 * ```ts
 * import type { Consumption } from '@onceward/core'
 * import { consumeSqs } from '@onceward/sqs'
 * import type { ProveEnv } from 'onceward/prove'
 *
 * export function start(env: ProveEnv<'sqs'>): Promise<Consumption> {
 *   return consumeSqs(sqs, billing, { queueUrl: env.queueUrl })
 * }
 * ```
 */
export type ProveEnv<Broker extends ProveBroker = ProveBroker> = {
  readonly [Each in Broker]: ProveCommon & { readonly broker: Each } & ProvePlaces[Each]
}[Broker] &
  ProveVariables

/** The environment variables by their own names. */
export interface ProveVariables {
  readonly [variable: Uppercase<string>]: string | undefined
}

/** The exports of the file that `prove` runs, or of its default export. */
export interface Proof<Broker extends ProveBroker = ProveBroker> {
  /** Starts the consumer, in each worker process. Resolves when it consumes. */
  start(env: ProveEnv<Broker>): Promise<Consumption>
  /** The body of the n-th event, from 1 on. It is sent as JSON. One of its values is the key that `count` answers. */
  event(n: number): unknown
  /** For each event how many effects it has, by a value of its body such as its id. An event without effect may be left out. */
  count(env: ProveEnv<Broker>): Promise<Readonly<Record<string, number>>>
  /** Headers of the n-th event. Default: none. */
  headers?(n: number): Readonly<Record<string, string>>
  /** Creates what the consumer needs, such as its tables, once and before the first worker. */
  setup?(env: ProveEnv<Broker>): Promise<void>
  /** Removes what `setup` has created, after everything. Only worth writing with `--servers env`. */
  teardown?(env: ProveEnv<Broker>): Promise<void>
}
