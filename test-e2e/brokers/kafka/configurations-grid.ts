import type { Grid } from '../../fuzz/configurations/grid.ts'

export interface KafkaSettings {
  /** Of the topic. */
  readonly topic: Readonly<Record<string, string>>
  /** Of the dead-letter topic. */
  readonly deadTopic: Readonly<Record<string, string>>
  readonly hasDeadTopic: boolean
  readonly consumer: Readonly<Record<string, number | boolean>>
  readonly assigner: 'round robin' | 'own'
  readonly producer: 'plain' | 'idempotent' | 'transactional'
  readonly partitions: number
  readonly hasKeys: boolean
  readonly partitionsConsumedConcurrently: number | undefined
  readonly transaction: 'each' | 'batch'
}

export const KAFKA: Grid<KafkaSettings> = {
  name: 'kafka',
  title: 'Kafka',
  base: {
    topic: {},
    deadTopic: {},
    hasDeadTopic: true,
    consumer: {},
    assigner: 'round robin',
    producer: 'plain',
    partitions: 2,
    hasKeys: true,
    partitionsConsumedConcurrently: undefined,
    transaction: 'each',
  },
  // Kafka itself refuses records without a key in a compacted topic.
  isImpossible: ({ topic, hasKeys }) =>
    topic['cleanup.policy']?.includes('compact') === true && !hasKeys,
  dimensions: [
    {
      name: 'topic',
      choices: [
        { name: 'default' },
        {
          name: '`cleanup.policy` compact',
          set: { topic: { 'cleanup.policy': 'compact' } },
          warned: 'keeps records without a limit',
        },
        {
          name: '`cleanup.policy` compact,delete',
          set: { topic: { 'cleanup.policy': 'compact,delete' } },
          warned: 'keeps records without a limit',
        },
        {
          name: '`message.timestamp.type` LogAppendTime',
          set: { topic: { 'message.timestamp.type': 'LogAppendTime' } },
        },
        { name: '`retention.ms` one minute', set: { topic: { 'retention.ms': '60000' } } },
        {
          name: '`retention.ms` a year',
          set: { topic: { 'retention.ms': '31536000000' } },
          refused: '(retention.ms)',
        },
        {
          name: '`retention.ms` −1',
          set: { topic: { 'retention.ms': '-1' } },
          warned: 'keeps records without a limit',
        },
        { name: '`compression.type` gzip', set: { topic: { 'compression.type': 'gzip' } } },
      ],
    },
    {
      name: 'dead-letter topic',
      choices: [
        { name: 'default' },
        {
          name: 'missing, auto-creation off',
          set: { hasDeadTopic: false },
          refused: 'deadLetter.topic',
        },
        {
          name: '`max.message.bytes` smaller than a dead letter',
          set: { deadTopic: { 'max.message.bytes': '200' } },
          refused: '(max.message.bytes)',
        },
        {
          name: '`min.insync.replicas` more than there are replicas',
          set: { deadTopic: { 'min.insync.replicas': '2' } },
          refused: '(min.insync.replicas)',
        },
        {
          name: '`cleanup.policy` compact',
          set: { deadTopic: { 'cleanup.policy': 'compact' } },
          refused: '(cleanup.policy)',
        },
        {
          name: '`message.timestamp.type` LogAppendTime',
          set: { deadTopic: { 'message.timestamp.type': 'LogAppendTime' } },
        },
        { name: '`retention.ms` one minute', set: { deadTopic: { 'retention.ms': '60000' } } },
      ],
    },
    {
      name: 'records',
      choices: [{ name: 'with keys' }, { name: 'without keys', set: { hasKeys: false } }],
    },
    {
      name: 'producer of the topic',
      choices: [
        { name: 'plain' },
        { name: 'idempotent', set: { producer: 'idempotent' } },
        { name: 'transactional, some aborted', set: { producer: 'transactional' } },
      ],
    },
    {
      name: 'isolation',
      choices: [
        { name: 'read committed' },
        {
          name: '`readUncommitted: true`',
          set: { consumer: { readUncommitted: true } },
          refused: 'readUncommitted',
        },
      ],
    },
    {
      name: 'session',
      choices: [
        { name: 'default' },
        { name: '`sessionTimeout` 2 s', set: { consumer: { sessionTimeout: 2_000 } } },
        {
          name: '`sessionTimeout` below the broker’s least',
          set: { consumer: { sessionTimeout: 500 } },
          refused: 'sessionTimeout',
        },
        { name: '`rebalanceTimeout` 5 s', set: { consumer: { rebalanceTimeout: 5_000 } } },
        {
          name: '`heartbeatInterval` as long as the session',
          set: { consumer: { sessionTimeout: 6_000, heartbeatInterval: 6_000 } },
          refused: 'heartbeatInterval',
        },
      ],
    },
    {
      name: 'fetches',
      choices: [
        { name: 'default' },
        { name: '`maxBytesPerPartition` 100', set: { consumer: { maxBytesPerPartition: 100 } } },
        { name: '`minBytes` 10000', set: { consumer: { minBytes: 10_000 } } },
        { name: '`maxInFlightRequests` 1', set: { consumer: { maxInFlightRequests: 1 } } },
      ],
    },
    {
      name: 'assignor',
      choices: [{ name: 'round robin' }, { name: 'of the user', set: { assigner: 'own' } }],
    },
    {
      name: 'partitions',
      choices: [
        { name: '2' },
        { name: '1', set: { partitions: 1 } },
        { name: '12', set: { partitions: 12 } },
      ],
    },
    {
      name: '`partitionsConsumedConcurrently`',
      choices: [{ name: 'default' }, { name: '1', set: { partitionsConsumedConcurrently: 1 } }],
    },
    {
      name: '`transaction`',
      choices: [{ name: 'each' }, { name: 'batch', set: { transaction: 'batch' } }],
    },
  ],
}
