import type { Grid } from '../../fuzz/configurations/grid.ts'

export interface SqsSettings {
  readonly engine: 'fauxqs' | 'elasticmq'
  readonly isFifo: boolean
  /** FIFO: all messages are in one group, so that each waits for the one before. */
  readonly hasOneGroup: boolean
  /** Attributes of the queue. */
  readonly queue: Readonly<Record<string, string>>
  /** Attributes of the dead-letter queue. */
  readonly dead: Readonly<Record<string, string>>
  readonly missing: 'queue' | 'dead-letter queue' | undefined
  readonly deadLetter: 'queue' | 'table' | 'redrive'
  readonly dedupWindowMs: number | undefined
  readonly visibilityMs: number | undefined
  readonly longPollMs: number
  readonly maxReceiveCount: number | undefined
  readonly transaction: 'each' | 'batch'
}

/** Of a cell that names none. */
const ENOUGH = 1_000

export const SQS: Grid<SqsSettings> = {
  name: 'sqs',
  title: 'SQS',
  base: {
    engine: 'fauxqs',
    isFifo: false,
    hasOneGroup: false,
    queue: {},
    dead: {},
    missing: undefined,
    deadLetter: 'queue',
    dedupWindowMs: undefined,
    visibilityMs: 2_000,
    longPollMs: 500,
    maxReceiveCount: ENOUGH,
    transaction: 'each',
  },
  // ElasticMQ neither keeps nor answers these attributes.
  isImpossible: ({ engine, queue, dead, dedupWindowMs }) =>
    engine === 'elasticmq' &&
    ('MessageRetentionPeriod' in queue ||
      Object.keys(dead).length > 0 ||
      dedupWindowMs !== undefined),
  dimensions: [
    {
      name: 'server',
      choices: [{ name: 'fauxqs' }, { name: 'ElasticMQ', set: { engine: 'elasticmq' } }],
    },
    {
      name: 'type',
      choices: [
        { name: 'standard' },
        { name: 'FIFO, a group for each event', set: { isFifo: true } },
        { name: 'FIFO, one group', set: { isFifo: true, hasOneGroup: true } },
        {
          name: 'FIFO, `ContentBasedDeduplication`',
          set: { isFifo: true, queue: { ContentBasedDeduplication: 'true' } },
        },
      ],
    },
    {
      name: '`VisibilityTimeout` of the queue',
      choices: [
        { name: '60 s', set: { queue: { VisibilityTimeout: '60' } } },
        {
          name: '1 s',
          set: { queue: { VisibilityTimeout: '1' } },
          warned: 'The VisibilityTimeout',
        },
        { name: '12 h', set: { queue: { VisibilityTimeout: '43200' } } },
      ],
    },
    {
      name: '`visibilityMs`',
      choices: [
        { name: '2 s' },
        { name: '1 s', set: { visibilityMs: 1_000 } },
        { name: 'default', set: { visibilityMs: undefined } },
        { name: '12 h', set: { visibilityMs: 43_200_000 } },
      ],
    },
    {
      name: '`longPollMs`',
      choices: [
        { name: '500' },
        { name: '0', set: { longPollMs: 0 } },
        { name: '2000', set: { longPollMs: 2_000 } },
      ],
    },
    {
      name: '`ReceiveMessageWaitTimeSeconds`',
      choices: [
        { name: '0' },
        { name: '20', set: { queue: { ReceiveMessageWaitTimeSeconds: '20' } } },
      ],
    },
    {
      name: '`DelaySeconds`',
      choices: [{ name: '0' }, { name: '1', set: { queue: { DelaySeconds: '1' } } }],
    },
    {
      name: '`MessageRetentionPeriod`',
      choices: [
        { name: '4 days' },
        { name: '1 minute', set: { queue: { MessageRetentionPeriod: '60' } } },
        {
          name: 'longer than `dedupWindowMs`',
          set: { dedupWindowMs: 3_600_000 },
          refused: '(MessageRetentionPeriod)',
        },
      ],
    },
    {
      name: '`deadLetter`',
      choices: [
        { name: 'a queue' },
        { name: 'none', set: { deadLetter: 'table' } },
        {
          name: '`redrive`, and no RedrivePolicy',
          set: { deadLetter: 'redrive', maxReceiveCount: undefined },
          refused: 'has no RedrivePolicy',
        },
      ],
    },
    {
      name: 'dead-letter queue',
      choices: [
        { name: 'like the queue' },
        {
          name: 'takes smaller messages',
          set: { dead: { MaximumMessageSize: '1024' } },
          warned: 'takes messages of at most 1024 bytes',
          unwarned: ({ deadLetter }) => deadLetter !== 'queue',
        },
        {
          name: 'keeps messages for a shorter time',
          set: { dead: { MessageRetentionPeriod: '3600' } },
          warned: 'keeps messages for 3600000 ms, shorter',
          unwarned: ({ deadLetter, queue }) =>
            deadLetter !== 'queue' || queue['MessageRetentionPeriod'] === '60',
        },
        { name: 'missing', set: { missing: 'dead-letter queue' }, refused: 'deadLetter.queueUrl' },
      ],
    },
    {
      name: 'queue',
      choices: [
        { name: 'there' },
        { name: 'missing', set: { missing: 'queue' }, refused: 'queueUrl' },
      ],
    },
    {
      name: 'RedrivePolicy',
      choices: [
        { name: 'many receives' },
        {
          name: 'none',
          set: { maxReceiveCount: undefined },
          warned: 'has no RedrivePolicy',
        },
        {
          name: '`maxReceiveCount` 6, fewer than attempts may need',
          set: { maxReceiveCount: 6 },
          warned: 'moves a message away after 6 receives',
        },
      ],
    },
    {
      name: '`transaction`',
      choices: [{ name: 'each' }, { name: 'batch', set: { transaction: 'batch' } }],
    },
  ],
}
