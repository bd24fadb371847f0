import type { Grid } from '../../fuzz/configurations/grid.ts'

export interface NatsSettings {
  readonly retention: 'limits' | 'workqueue' | 'interest'
  readonly storage: 'file' | 'memory'
  /** Settings of the stream and of the consumer, as JetStream has them. */
  readonly stream: Readonly<Record<string, unknown>>
  readonly consumer: Readonly<Record<string, unknown>>
  readonly isMissing: 'stream' | 'consumer' | undefined
  readonly deadLetter: 'subject' | 'stream' | 'table' | 'itself' | 'nowhere'
  readonly orderingSubject: true | number | undefined
  readonly transaction: 'each' | 'batch'
}

export const NATS: Grid<NatsSettings> = {
  name: 'nats',
  title: 'NATS',
  base: {
    retention: 'limits',
    storage: 'file',
    stream: { max_age: 86_400e9 },
    consumer: { ack_wait: 60e9, max_deliver: -1 },
    isMissing: undefined,
    deadLetter: 'subject',
    orderingSubject: undefined,
    transaction: 'each',
  },
  dimensions: [
    {
      name: '`storage`, `num_replicas`',
      choices: [
        { name: '`file`, 1', warned: 'sync_interval' },
        { name: '`memory`', set: { storage: 'memory' }, warned: '(storage memory)' },
      ],
    },
    {
      name: '`retention`',
      choices: [
        { name: '`limits`, `max_age` a day' },
        {
          name: '`limits`, no `max_age`',
          set: { stream: { max_age: 0 } },
          warned: 'without a limit of time',
        },
        {
          name: '`limits`, `max_age` longer than the window',
          set: { stream: { max_age: 30 * 86_400e9 } },
          refused: '(max_age), longer than',
        },
        { name: '`workqueue`', set: { retention: 'workqueue', stream: { max_age: 0 } } },
        { name: '`interest`', set: { retention: 'interest', stream: { max_age: 0 } } },
        {
          name: '`limits`, `max_msgs`, `discard old`',
          set: { stream: { max_age: 86_400e9, max_msgs: 100_000 } },
          warned: '(discard old)',
        },
      ],
    },
    {
      name: 'the consumer',
      choices: [
        { name: 'pull, `ack_wait` 60 s' },
        {
          name: '`ack_wait` 1 s',
          set: { consumer: { ack_wait: 1e9, max_deliver: -1 } },
          warned: "shorter than the guard's lease",
        },
        {
          name: '`ack_wait` 100 ms',
          set: { consumer: { ack_wait: 1e8, max_deliver: -1 } },
          refused: 'too short to renew',
        },
        {
          name: '`max_deliver` 1',
          set: { consumer: { ack_wait: 60e9, max_deliver: 1 } },
          refused: '(max_deliver), fewer than',
        },
        {
          name: '`max_deliver` 6',
          set: { consumer: { ack_wait: 60e9, max_deliver: 6 } },
          warned: '(max_deliver), which waits and takeovers may spend',
        },
        {
          name: '`max_ack_pending` 1',
          set: { consumer: { ack_wait: 60e9, max_deliver: -1, max_ack_pending: 1 } },
          warned: '(max_ack_pending)',
        },
        {
          name: '`inactive_threshold` 1 h',
          set: { consumer: { ack_wait: 60e9, max_deliver: -1, inactive_threshold: 3_600e9 } },
          warned: '(inactive_threshold)',
        },
        {
          name: 'ack policy `all`',
          set: { consumer: { ack_policy: 'all' } },
          refused: 'ack policy all',
        },
        {
          name: 'ack policy `none`',
          set: { consumer: { ack_policy: 'none' } },
          refused: 'ack policy none',
        },
        {
          name: 'push',
          set: { consumer: { ack_wait: 60e9, deliver_subject: 'push' } },
          refused: 'push consumer',
        },
        {
          name: '`headers_only`',
          set: { consumer: { ack_wait: 60e9, headers_only: true } },
          refused: 'headers_only',
        },
        { name: 'missing', set: { isMissing: 'consumer' }, refused: 'nats consumer add' },
        { name: 'its stream missing', set: { isMissing: 'stream' }, refused: 'nats stream add' },
      ],
    },
    {
      name: '`deadLetter`',
      choices: [
        { name: 'a subject' },
        { name: 'a stream', set: { deadLetter: 'stream' } },
        { name: 'none', set: { deadLetter: 'table' } },
        {
          name: 'a subject of the stream itself',
          set: { deadLetter: 'itself' },
          refused: 'would come back again and again',
        },
        {
          name: 'a subject of no stream',
          set: { deadLetter: 'nowhere' },
          refused: 'No stream takes the subject',
        },
      ],
    },
    {
      name: '`orderingSubject`',
      choices: [
        { name: 'none' },
        { name: '`true`', set: { orderingSubject: true } },
        { name: 'a token', set: { orderingSubject: 2 } },
      ],
    },
    {
      name: '`transaction`',
      choices: [{ name: 'each' }, { name: 'batch', set: { transaction: 'batch' } }],
    },
  ],
}
