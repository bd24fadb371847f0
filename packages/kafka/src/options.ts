import type { ConsumeOptions, RunOptions } from '@onceward/core'
import {
  CONSUME_NAMES,
  type GuardSettings,
  isConnectionString,
  type KnownNames,
  quoted,
  RUN_DEFAULTS,
  RUN_NAMES,
  type RunSettings,
  rangeProblems,
  refuseProblems,
  refuseUnknownOptions,
  resolveRunOptions,
  runOptionProblems,
  shown,
  typeProblems,
  withoutUndefined,
} from '@onceward/core/adapter'
import type { ConsumerConfig } from 'kafkajs'
import { matches } from './clients/matches.ts'
import type { KafkaProducer } from './clients/producers.ts'

export interface KafkaOptions {
  /**
   * Where dead messages go, with acks from all replicas, their own key and headers and those that give the reason, before
   * the offset passes the original. The producer, of kafkajs or `@platformatic/kafka`, stays yours: connect it before,
   * disconnect it after the drain. With `platformatic(…)` and `confluent(…)` it may be left out: they make their own.
   * `consumeKafka` needs the topic in the cluster that it consumes. Left out: `failed_events`. Required without an inbox.
   */
  readonly deadLetter?:
    | { readonly producer?: KafkaProducer | undefined; readonly topic: string }
    | undefined
  /**
   * Partitions whose records kafkajs hands over at once, 1–1 000. Slow handlers hold none of them: how many run at once is
   * the guard's `concurrency`, over all partitions.
   *
   * @defaultValue 32
   */
  readonly partitionsConsumedConcurrently?: number | undefined
}

/** `batch.lingerMs` has no effect on Kafka: a fetch brings what there is, see `minBytes` of the consumer. */
export interface WrapKafkaOptions extends RunOptions, KafkaOptions {}

export interface ConsumeKafkaOptions extends ConsumeOptions, KafkaOptions {
  /** Names, or patterns. A pattern also matches topics that appear later, but not Kafka's own. */
  readonly topics: readonly (string | RegExp)[]
  /** @defaultValue the guard's `consumer`: two guards in one group would each see a part of the records */
  readonly groupId?: string | undefined
  /**
   * Where a group without any offset starts. `false` skips the records that are there at its first start, and no
   * others: partitions and topics that appear later are read from their beginning.
   *
   * @defaultValue true
   */
  readonly fromBeginning?: boolean | undefined
  /**
   * What identifies an event. `key`: the guard's event key. `offsets`: cluster, topic, partition and offset of the record,
   * so that clean records store nothing. A record that its producer sends twice has two offsets, and runs twice.
   * Needs a Postgres inbox and `transaction: 'batch'` or `createBatchGuard`, without `leases`, `split` and `afterCommit`.
   *
   * @defaultValue `key`
   */
  readonly identity?: 'key' | 'offsets' | undefined
  /**
   * Further settings of the consumer. The defaults are `sessionTimeout` ({@link DEFAULTS}, with a lease store the
   * guard's `leaseMs` up to 30 s), `heartbeatInterval` (a sixth of it), `maxWaitTimeInMs` ({@link DEFAULTS}), `retry`,
   * and `allowAutoTopicCreation: false`.
   */
  readonly consumer?: Partial<ConsumerConfig> | undefined
}

/** Every default of this package, in milliseconds where the name says so. */
export const DEFAULTS: Readonly<
  Record<
    | 'batchSize'
    | 'drainMs'
    | 'partitionsConsumedConcurrently'
    | 'sessionTimeoutMs'
    | 'maxWaitTimeMs',
    number
  >
> = Object.freeze({
  batchSize: RUN_DEFAULTS.batchSize,
  drainMs: RUN_DEFAULTS.drainMs,
  partitionsConsumedConcurrently: 32,
  // It bounds how soon the partitions of a dead process go to others, and how long a consumer that kafkajs ended
  // keeps its group waiting.
  sessionTimeoutMs: 10_000,
  // A resumed partition waits for the fetch that is under way.
  maxWaitTimeMs: 100,
})

/** The whole group is paused during this time. */
const GRACE_MS = 5_000

/** Options after defaults and checks. */
export interface Settings extends RunSettings {
  readonly deadLetter: { readonly producer: KafkaProducer; readonly topic: string } | undefined
  readonly partitionsConsumedConcurrently: number
  /** How long a rebalance waits for running handlers. */
  readonly graceMs: number
}

/** {@link Settings} of a consumer that onceward runs. */
export interface ConsumerSettings extends Settings {
  readonly topics: readonly (string | RegExp)[]
  readonly fromBeginning: boolean
  readonly identity: 'key' | 'offsets'
  readonly consumer: ConsumerConfig & {
    readonly sessionTimeout: number
    readonly heartbeatInterval: number
    readonly maxWaitTimeInMs: number
  }
  /** The user's `restartOnFailure`: whether a new consumer follows after kafkajs gave up. */
  readonly mayRestart: ((error: Error) => Promise<boolean>) | undefined
}

const OWN_NAMES: KnownNames<KafkaOptions> = {
  deadLetter: true,
  partitionsConsumedConcurrently: true,
}
const WRAP_NAMES: KnownNames<WrapKafkaOptions> = { ...RUN_NAMES, ...OWN_NAMES }
const CONSUMER_NAMES: KnownNames<ConsumeKafkaOptions> = {
  ...{ ...CONSUME_NAMES, ...OWN_NAMES },
  ...{ topics: true, groupId: true, fromBeginning: true, identity: true, consumer: true },
}
const TARGET_NAMES = ['producer', 'topic']

/** @throws {@link ConfigurationError} for names that `consumeKafka` does not have. */
export function checkConsumeNames(options: ConsumeKafkaOptions): void {
  refuseUnknownOptions('consumeKafka', options, CONSUMER_NAMES, TARGET_NAMES)
}

/** @throws {@link ConfigurationError} for names that `wrapKafka` does not have. */
export function checkWrapNames(options: WrapKafkaOptions): void {
  refuseUnknownOptions('wrapKafka', options, WRAP_NAMES, TARGET_NAMES)
}

/** @throws {@link ConfigurationError} with every problem at once. */
export function resolveSettings(options: WrapKafkaOptions, guard: GuardSettings): Settings {
  refuseProblems(commonProblems(options, guard))
  return settingsOf(options, guard)
}

/** @throws {@link ConfigurationError} with every problem at once. */
export function resolveConsumerSettings(
  options: ConsumeKafkaOptions,
  guard: GuardSettings,
): ConsumerSettings {
  refuseProblems([
    ...topicProblems(options),
    ...groupProblems(options),
    ...commonProblems(options, guard),
    ...runOptionProblems(options),
    ...typeProblems('fromBeginning', options.fromBeginning, 'boolean'),
    ...identityProblems(options, guard),
    ...typeProblems('consumer', options.consumer, 'object'),
  ])
  const consumer = consumerConfigOf(options, guard)
  refuseProblems(timeProblems(consumer))
  const { rebalanceTimeout = 60_000 } = consumer
  return {
    ...settingsOf(options, guard),
    // A member that rejoins too late is expelled, and its offsets are lost.
    graceMs: Math.min(GRACE_MS, Math.floor(rebalanceTimeout / 3)),
    topics: options.topics,
    fromBeginning: options.fromBeginning ?? true,
    identity: options.identity ?? 'key',
    consumer,
    mayRestart: options.consumer?.retry?.restartOnFailure,
  }
}

function settingsOf(options: ConsumeOptions & WrapKafkaOptions, guard: GuardSettings): Settings {
  const { deadLetter, partitionsConsumedConcurrently } = options
  return {
    ...resolveRunOptions(options, guard),
    // Without a producer it is a problem that was reported.
    deadLetter: deadLetter as Settings['deadLetter'],
    graceMs: GRACE_MS,
    partitionsConsumedConcurrently:
      partitionsConsumedConcurrently ?? DEFAULTS.partitionsConsumedConcurrently,
  }
}

/**
 * If the session is shorter than the lease, the next member gets the records of a dead process but must wait for the
 * lease (brokers.md §5.5).
 */
const defaultSessionMs = ({ hasLeases, leaseMs }: GuardSettings): number =>
  hasLeases
    ? Math.min(30_000, Math.max(DEFAULTS.sessionTimeoutMs, leaseMs))
    : DEFAULTS.sessionTimeoutMs

function consumerConfigOf(
  { consumer: given, groupId }: ConsumeKafkaOptions,
  guard: GuardSettings,
): ConsumerSettings['consumer'] {
  const consumer = withoutUndefined(given)
  const sessionTimeout = consumer.sessionTimeout ?? defaultSessionMs(guard)
  return {
    heartbeatInterval: Math.floor(sessionTimeout / 6),
    maxWaitTimeInMs: DEFAULTS.maxWaitTimeMs,
    // A request of the consumer must not create a deleted topic again, empty (brokers.md K23).
    allowAutoTopicCreation: false,
    ...consumer,
    groupId: groupId ?? consumer.groupId ?? guard.consumer,
    sessionTimeout,
    retry: {
      initialRetryTime: 100,
      maxRetryTime: 2_000,
      // Five seconds, nearly as long as the member id is worth keeping (brokers.md K20); then a new consumer takes
      // over. kafkajs puts a listener on its dead sockets at each, and at some calls between: from eleven on Node
      // warns of a leak.
      retries: 6,
      ...withoutUndefined(consumer.retry),
      // A consumer that was stopped while kafkajs was about to restart it would come back to life (K21).
      restartOnFailure: () => Promise.resolve(false),
    },
  }
}

function commonProblems(options: WrapKafkaOptions, guard: GuardSettings): readonly string[] {
  return [
    ...deadLetterProblems(options, guard),
    ...rangeProblems(
      'partitionsConsumedConcurrently',
      options.partitionsConsumedConcurrently,
      [1, 1_000],
      'partitions',
    ),
    ...runOptionProblems({ batch: options.batch }),
  ]
}

function deadLetterProblems({ deadLetter }: KafkaOptions, guard: GuardSettings): readonly string[] {
  if (deadLetter === undefined) {
    if (guard.hasInbox) return []
    return [
      'Expected `deadLetter` to be `{ producer, topic }`, got undefined: without an inbox there is no other place ' +
        'for a dead message.',
    ]
  }
  if (typeof deadLetter !== 'object' || deadLetter === null) {
    return [`Expected \`deadLetter\` to be \`{ producer, topic }\`, got ${quoted(deadLetter)}.`]
  }
  const { producer, topic } = deadLetter as { producer: unknown; topic: unknown }
  return [
    ...(isName(topic)
      ? []
      : [`Expected \`deadLetter.topic\` to be the name of a topic, got ${quoted(topic)}.`]),
    ...(typeof (producer as KafkaProducer | undefined)?.send === 'function'
      ? []
      : ['Expected `deadLetter.producer` to be a producer of kafkajs or @platformatic/kafka.']),
  ]
}

function topicProblems({ topics, deadLetter }: ConsumeKafkaOptions): readonly string[] {
  const given: unknown = topics
  const isList = Array.isArray(given) && given.length > 0
  if (!(isList && given.every((topic) => isName(topic) || topic instanceof RegExp))) {
    return [
      'Expected `topics` to be a list of at least one topic, by name or by RegExp, got ' +
        `${Array.isArray(given) ? `[${given.map((topic) => shown(String(topic))).join(', ')}]` : quoted(given)}.`,
    ]
  }
  if (!deadLetter || !topics.some((topic) => matches(topic, deadLetter.topic))) return []
  return [
    `Expected \`deadLetter.topic\` to be another topic than those consumed, got \`${shown(String(deadLetter.topic))}\`: a dead ` +
      'message would come back again and again.',
  ]
}

function identityProblems(
  { identity }: ConsumeKafkaOptions,
  { hasInbox, hasLeases, transaction, unfitForOffsets = [] }: GuardSettings,
): readonly string[] {
  const given: unknown = identity
  if (given === undefined || given === 'key') return []
  if (given === 'both') {
    return [
      "`identity: 'both'` does not exist: whether a key was there before can only be told with a row for each key, and then the rows are the guard. Use `key`.",
    ]
  }
  if (given !== 'offsets')
    return [`Expected \`identity\` to be \`key\` or \`offsets\`, got ${quoted(given)}.`]
  const needs = "`identity: 'offsets'` needs"
  return [
    ...(hasInbox ? [] : [`${needs} an inbox in Postgres, where the offsets are kept.`]),
    ...(transaction === 'batch'
      ? []
      : [
          `${needs} \`transaction: 'batch'\` or createBatchGuard(), got \`${transaction}\`: the offset of a partition moves on in order, so its records cannot commit one beside the other.`,
        ]),
    ...[...(hasLeases ? ['leases'] : []), ...unfitForOffsets].map(
      (name) => `${needs} a guard without \`${name}\`. ${UNFIT[name] ?? ''}`,
    ),
  ]
}

/** Why an option of the guard does not go with `identity: 'offsets'`. */
const UNFIT: Readonly<Record<string, string>> = {
  afterCommit: 'A record that is done is not delivered again, so the call could be lost.',
  leases: 'One member owns a partition, so there is nothing to lease.',
  split: 'The items of one record would have one identity.',
}

function groupProblems({ groupId, consumer }: ConsumeKafkaOptions): readonly string[] {
  const inner = consumer?.groupId
  const wrong = Object.entries({ groupId, 'consumer.groupId': inner }).flatMap(([name, value]) => {
    if (value === undefined || isName(value)) return []
    return [`Expected \`${name}\` to be a string that is not empty, got ${quoted(value)}.`]
  })
  if (wrong.length > 0 || groupId === undefined || (inner ?? groupId) === groupId) return wrong
  const [one, two] = [groupId, String(inner)].map(shown)
  return [`Expected one group id, got \`groupId\` '${one}' and \`consumer.groupId\` '${two}'.`]
}

function timeProblems({
  sessionTimeout,
  heartbeatInterval,
  maxWaitTimeInMs,
}: ConsumerSettings['consumer']): readonly string[] {
  const session = rangeProblems('consumer.sessionTimeout', sessionTimeout, [1_000, 1_800_000])
  if (session.length > 0) return session
  const tooLong = (name: string, value: number, why: string): readonly string[] =>
    typeof value === 'number' && value < sessionTimeout
      ? []
      : [
          `Expected \`consumer.${name}\` to be below the sessionTimeout of ${sessionTimeout} ms, a third of it or ` +
            `less, got ${quoted(value)}: ${why}`,
        ]
  return [
    ...tooLong('heartbeatInterval', heartbeatInterval, 'the group would expel this member.'),
    ...tooLong(
      'maxWaitTimeInMs',
      maxWaitTimeInMs,
      'kafkajs sends heartbeats between fetches, so an idle member would be expelled again and again.',
    ),
  ]
}

const isName = (value: unknown): boolean =>
  typeof value === 'string' && value !== '' && !isConnectionString(value)
