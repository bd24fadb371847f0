import type { Grid } from '../../fuzz/configurations/grid.ts'

export interface SqsSettings {
  readonly isFifo: boolean
  /** Attributes of the queue. */
  readonly queue: Readonly<Record<string, string>>
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
    isFifo: false,
    queue: {},
    visibilityMs: 2_000,
    longPollMs: 500,
    maxReceiveCount: ENOUGH,
    transaction: 'each',
  },
  dimensions: [
    { name: 'type', choices: [{ name: 'standard' }, { name: 'FIFO', set: { isFifo: true } }] },
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
      choices: [{ name: '500' }, { name: '0', set: { longPollMs: 0 } }],
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
      ],
    },
    {
      name: 'RedrivePolicy',
      choices: [
        { name: 'many receives' },
        { name: 'none', set: { maxReceiveCount: undefined }, warned: 'has no RedrivePolicy' },
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
